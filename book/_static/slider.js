// A range input for the figures of `eqbook.plotting.slider`. Without this script a page shows their first frame, and the
// others on demand.
(function () {
  "use strict";

  function enliven(box) {
    const frames = Array.from(box.querySelectorAll(".eqbook-frame"));
    let shown = frames[0];
    frames.sort((a, b) => a.dataset.index - b.dataset.index);

    const label = document.createElement("label");
    const value = document.createElement("output");
    const input = document.createElement("input");
    input.type = "range";
    input.id = box.id + "-input";
    input.min = 0;
    input.max = frames.length - 1;
    input.step = 1;
    input.value = frames.indexOf(shown);
    label.htmlFor = value.htmlFor = input.id;
    label.textContent = box.dataset.title;

    function show() {
      shown.hidden = true;
      shown = frames[input.value];
      shown.hidden = false;
      value.textContent = shown.dataset.label;
      input.setAttribute("aria-valuetext", shown.dataset.label);
    }

    box.querySelector("details").remove();
    for (const frame of frames) {
      frame.hidden = true;
      frame.querySelector("figcaption").remove();
      box.append(frame);
    }
    const controls = document.createElement("div");
    controls.className = "eqbook-slider-controls";
    controls.append(label, input, value);
    box.prepend(controls);
    show();
    input.addEventListener("input", show);
  }

  function start() {
    document.querySelectorAll(".eqbook-slider").forEach(enliven);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
