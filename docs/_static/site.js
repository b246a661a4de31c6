// Tables keep letters of a readable size: on a small screen they scroll inside a box. Pictures fit the screen, and a
// tap makes their letters readable.
"use strict";

addEventListener("load", () => {
  // Words and intervals in cells keep a width; the table scrolls.
  for (const cell of document.querySelectorAll("article table.docutils td")) {
    const { length } = cell.textContent;
    cell.classList.toggle("short", length <= 14);
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
    const fitting = `min(100%, ${image.naturalWidth}px)`;
    image.style.width = fitting;
    const readable = Math.min(image.naturalWidth, 2 * box.clientWidth);
    if (page || image.closest("a") || box.clientWidth > 0.65 * image.naturalWidth) continue;
    box.tabIndex = 0;
    box.setAttribute("role", "button");
    box.setAttribute("aria-label", `${image.alt || "Picture"}: enlarge or fit`);
    const turn = ({ offsetX = 0 }) => {
      const share = offsetX / box.clientWidth;
      image.style.width = box.classList.toggle("large") ? `${readable}px` : fitting;
      // The place that was tapped stays in view.
      box.scrollLeft = share * (box.scrollWidth - box.clientWidth);
    };
    box.addEventListener("click", turn);
    box.addEventListener("keydown", (event) => event.key === "Enter" && turn({}));
  }
});
