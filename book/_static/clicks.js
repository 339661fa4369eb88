// The buttons of the theme, without handlers in the page: a server may forbid inline scripts.
(function () {
  "use strict";

  const actions = {
    "toggleFullScreen": () => toggleFullScreen(),
    "window.print": () => window.print(),
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-click]");
    if (button) actions[button.dataset.click]();
  });
})();
