// The theme: the system's, or a theme that the user has chosen for this browser.

const KEY = "ottla-console-theme";
const CHOICES = ["auto", "dark", "light"];

function chosen() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto";
  }
}

function choose(name) {
  try {
    if (name === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // Without storage, the chosen theme lasts until the page is closed.
  }
}

export function theme(button) {
  let name = CHOICES.includes(chosen()) ? chosen() : "auto";
  const show = () => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.textContent = `theme: ${name}`;
  };
  button.addEventListener("click", () => {
    name = CHOICES[(CHOICES.indexOf(name) + 1) % CHOICES.length];
    choose(name);
    show();
  });
  show();
}
