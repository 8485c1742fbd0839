/* The pictures that stand on the page, and the one that keys mean: the nearest to focus or pointer. */

export interface Shown {
  turn: () => void;
  /** The one that is meant where nothing was pointed at. */
  first: boolean;
}

class Pictures {
  private all: Shown[] = [];
  private near: Shown | null = null;

  add(one: Shown): () => void {
    this.all.push(one);
    return () => {
      this.all = this.all.filter((other) => other !== one);
      if (this.near === one) this.near = null;
    };
  }

  point(one: Shown): void {
    this.near = one;
  }

  /** A table in place of the picture, or the picture again. */
  turn(): void {
    (this.near ?? this.all.find((one) => one.first) ?? this.all[0])?.turn();
  }
}

export const pictures = new Pictures();

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
