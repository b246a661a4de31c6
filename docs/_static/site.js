// Pictures and tables keep letters of a readable size: on a small screen they scroll inside a box.
"use strict";

addEventListener("load", () => {
  // Words and intervals in cells keep a width; the table scrolls.
  for (const cell of document.querySelectorAll("article table.docutils td")) {
    const { length } = cell.textContent;
    cell.classList.toggle("words", length > 40);
    cell.classList.toggle("sentence", length > 80);
    cell.classList.toggle("phrase", length > 12 && length <= 40 && /[a-z]{3}/.test(cell.textContent));
    cell.classList.toggle("interval", length <= 40 && /[±[]/.test(cell.textContent));
  }
  // Output of commands: the words after a label stay below each other.
  for (const output of document.querySelectorAll(".tag_wrap .cell_output pre")) {
    const lines = output.textContent.trimEnd().split("\n").map((text) => {
      const line = document.createElement("span");
      line.textContent = text || " ";
      line.style.setProperty("--label", /^(\S.*?\s{2,}|)/.exec(text)[0].length);
      return line;
    });
    output.replaceChildren(...lines);
  }
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest(".sphx-glr-thumbcontainer, .movable") || !image.naturalWidth) continue;
    const box = document.createElement("div");
    box.className = "picture";
    image.replaceWith(box);
    box.append(image);
    const page = image.naturalHeight > image.naturalWidth;
    image.classList.toggle("page", page);
    const whole = page || image.classList.contains("whole");
    const smallest = Math.round(Math.min(0.6 * image.naturalWidth, 1.5 * box.clientWidth));
    image.style.width = `max(${whole ? 0 : smallest}px, min(100%, ${image.naturalWidth}px))`;
  }
});
