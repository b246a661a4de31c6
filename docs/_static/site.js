// Pictures keep letters of a readable size: on a small screen they scroll inside a box.
"use strict";

addEventListener("load", () => {
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest(".sphx-glr-thumbcontainer, .movable") || !image.naturalWidth) continue;
    const box = document.createElement("div");
    box.className = "picture";
    image.replaceWith(box);
    box.append(image);
    const page = image.naturalHeight > image.naturalWidth;
    image.classList.toggle("page", page);
    const smallest = Math.round(0.66 * image.naturalWidth);
    image.style.width = page ? "100%" : `max(${smallest}px, min(100%, ${image.naturalWidth}px))`;
  }
});
