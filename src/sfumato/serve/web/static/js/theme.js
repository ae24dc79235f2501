// Before anything is drawn: the theme that was chosen the last time.
(() => {
  const order = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; } };
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = (theme) => {
      button.textContent = theme[0].toUpperCase() + theme.slice(1);
      button.setAttribute("aria-label", `Colours: ${theme}`);
    };
    show(read());
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(read()) + 1) % order.length];
      try { localStorage.setItem("theme", next); } catch { /* private windows keep nothing */ }
      apply(next);
      show(next);
      window.dispatchEvent(new Event("theme"));
    });
  });
})();
