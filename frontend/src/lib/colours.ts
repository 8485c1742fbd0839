/* Colours of values: signed ones purple, paper, orange; scores and probabilities in one hue. */

export type RGB = [number, number, number];

interface Palette {
  paper: RGB;
  below: RGB;
  above: RGB;
  score: RGB;
  output: RGB;
}

const LIGHT: Palette = {
  paper: [253, 252, 249],
  below: [106, 76, 168],
  above: [214, 108, 26],
  score: [146, 82, 8],
  output: [142, 47, 99],
};
const DARK: Palette = {
  paper: [24, 28, 32],
  below: [126, 98, 206],
  above: [214, 110, 32],
  score: [232, 160, 66],
  output: [222, 124, 174],
};

export const palette = (dark: boolean): Palette => (dark ? DARK : LIGHT);

function mixed(from: RGB, to: RGB, t: number): RGB {
  const share = Math.min(1, Math.max(0, t));
  return [0, 1, 2].map((i) => Math.round(from[i]! + (to[i]! - from[i]!) * share)) as RGB;
}

/** A signed value; t is its size against the limit, from -1 to 1. */
export function diverging(t: number, dark: boolean): RGB {
  const { paper, below, above } = palette(dark);
  return mixed(paper, t < 0 ? below : above, Math.sqrt(Math.abs(t)));
}

/** A probability, on a square-root scale. */
export function sequential(p: number, dark: boolean, hue: "score" | "output"): RGB {
  const found = palette(dark);
  return mixed(found.paper, found[hue], 0.92 * Math.sqrt(Math.max(0, p)));
}

export const css = ([r, g, b]: RGB): string => `rgb(${r} ${g} ${b})`;

const linear = (c: number): number => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4);

/** Whether white has more contrast on it than black, by the luminance that the eye sees. */
function isDark([r, g, b]: RGB): boolean {
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) < 0.179;
}

/** What is written on it: of white and black the one with more contrast, which is 4.5 at least. */
export const inkOn = (back: RGB): string => (isDark(back) ? "#ffffff" : "#000000");

/** The size below which all but one in two hundred values lie. */
export function limit(data: Float32Array): number {
  const sizes = Array.from(data, Math.abs)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  return sizes[Math.min(sizes.length - 1, Math.floor(0.995 * sizes.length))] || 1;
}

/** What a pixel has in the place of a number that there is none of, where hatching has no room. */
export const hidingColour = (dark: boolean): RGB => (dark ? [58, 65, 71] : [217, 212, 200]);

/** The colours of a byte of a difference: 128 is none, 0 has no counterpart. */
export function signedColours(dark: boolean): Uint32Array {
  const bytes = new Uint8ClampedArray(1024);
  bytes.set([...hidingColour(dark), 255], 0);
  for (let i = 1; i < 256; i++) {
    const root = (i - 128) / 127;
    bytes.set([...diverging(Math.sign(root) * root ** 2, dark), 255], 4 * i);
  }
  return new Uint32Array(bytes.buffer);
}

/** The colours of a byte: 255 times the root of a score. */
export function byteColours(dark: boolean): Uint32Array {
  const bytes = new Uint8ClampedArray(1024);
  for (let i = 0; i < 256; i++) bytes.set([...sequential((i / 255) ** 2, dark, "score"), 255], 4 * i);
  return new Uint32Array(bytes.buffer);
}
