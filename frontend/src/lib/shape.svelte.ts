/* What the window has room for, and which panes the visitor has folded. */

/** A state that follows a media query. */
class Matches {
  now = $state(false);

  constructor(query: string) {
    const list = matchMedia(query);
    this.now = list.matches;
    list.addEventListener("change", (event) => (this.now = event.matches));
  }
}

/** Room for what stands behind a switch or a fold elsewhere. */
export const roomy = new Matches("(min-width: 1600px) and (min-height: 1000px)");
/** Panes stand beside each other in one window, and what one takes the others lack. */
const shared = new Matches("(min-width: 1181px) and (min-height: 641px) and (max-height: 1099px)");

const said = localStorage.getItem("words");

/** The list of words below Dissect. */
class WordsFold {
  private chosen = $state<boolean | null>(said === null ? null : said === "folded");

  get folded(): boolean {
    return this.chosen ?? shared.now;
  }

  turn(): void {
    this.chosen = !this.folded;
    localStorage.setItem("words", this.chosen ? "folded" : "open");
  }

  /** Open until the page is left, since something in it is in use. */
  open(): void {
    this.chosen = false;
  }
}

export const words = new WordsFold();
