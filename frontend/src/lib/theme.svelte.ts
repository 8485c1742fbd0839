/* Light or dark: as the system has it, unless it is turned. */

class Theme {
  dark = $state(matchMedia("(prefers-color-scheme: dark)").matches);

  constructor() {
    const said = localStorage.getItem("theme");
    if (said) this.dark = said === "dark";
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
      if (!localStorage.getItem("theme")) this.set(event.matches);
    });
    this.set(this.dark);
  }

  turn(): void {
    localStorage.setItem("theme", this.dark ? "light" : "dark");
    this.set(!this.dark);
  }

  private set(dark: boolean): void {
    this.dark = dark;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }
}

export const theme = new Theme();
