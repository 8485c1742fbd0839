/* Points on a canvas: which pixel each is at, and which is nearest to the pointer. */

export interface View {
  /** Pixels to the right and down, and how many times as large. */
  x: number;
  y: number;
  zoom: number;
  /** In three dimensions: turned about the upright axis, and tilted. */
  turn: number;
  tilt: number;
}

export const START: View = { x: 0, y: 0, zoom: 1, turn: 0.6, tilt: 0.35 };
const MARGIN = 34;

/** The middle and half the width of the points by axis, and the pixels that are drawn into. */
export interface Frame {
  middle: number[];
  half: number[];
  width: number;
  height: number;
  solid: boolean;
  /** Whether the axes have one scale; a line between two words has its own. */
  even: boolean;
}

/** Where nearly all points lie; one in two hundred at each end may lie outside, and is drawn. */
export function framed(points: Float32Array, skip: (i: number) => boolean): { middle: number[]; half: number[] } {
  const count = points.length / 3;
  const spans = [0, 1, 2].map((k) => {
    const column: number[] = [];
    for (let i = 0; i < count; i++) if (!skip(i)) column.push(points[3 * i + k]!);
    const sorted = Float32Array.from(column).sort();
    const end = Math.floor(sorted.length / 200);
    const [least, most] = [sorted[end] ?? -1, sorted[sorted.length - 1 - end] ?? 1];
    return { middle: (least + most) / 2, half: Math.max(1e-9, (most - least) / 1.85) };
  });
  return { middle: spans.map((span) => span.middle), half: spans.map((span) => span.half) };
}

/** Pixels of all points: x and y in turn, and in three dimensions how near each is, from -1 to 1. */
export function onScreen(points: Float32Array, frame: Frame, view: View, to: Float32Array): Float32Array {
  const { middle, half, width, height } = frame;
  const [w, h] = [width / 2 - MARGIN, height / 2 - MARGIN];
  const same = Math.min(w / half[0]!, h / half[1]!);
  let scale = frame.even ? [same, same, same] : [w / half[0]!, h / half[1]!, h / half[2]!];
  if (frame.solid) {
    const radius = Math.min(w, h) / 1.25;
    scale = frame.even ? half.map(() => radius / Math.max(...half)) : half.map((one) => radius / one);
  }
  const [sin, cos, down, up] = [Math.sin(view.turn), Math.cos(view.turn), Math.sin(view.tilt), Math.cos(view.tilt)];
  const [cx, cy] = [width / 2 + view.x, height / 2 + view.y];
  const deep = Math.min(w, h);
  for (let i = 0, j = 0; j < points.length; i += 3, j += 3) {
    let x = (points[j]! - middle[0]!) * scale[0]!;
    let y = (points[j + 1]! - middle[1]!) * scale[1]!;
    let near = 0;
    if (frame.solid) {
      const z = (points[j + 2]! - middle[2]!) * scale[2]!;
      const back = cos * z - sin * x;
      x = cos * x + sin * z;
      near = (up * back + down * y) / deep;
      y = up * y - down * back;
    }
    to[i] = cx + view.zoom * x;
    to[i + 1] = cy - view.zoom * y;
    to[i + 2] = near;
  }
  return to;
}

/** ``#005a8f`` as three numbers. */
const rgb = (hex: string): number[] => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

/** Points as squares, blended into the pixels of a picture: faster than as many calls of a canvas. */
export function speckle(
  picture: ImageData,
  at: Float32Array,
  hues: string[],
  kinds: number[],
  skip: (i: number) => boolean,
  look: { ratio: number; size: number; strength: number; solid: boolean },
): void {
  const { data, width, height } = picture;
  const colours = hues.map(rgb);
  for (let i = 0; i < kinds.length; i++) {
    if (skip(i)) continue;
    const closer = look.solid ? 1 + 0.5 * at[3 * i + 2]! : 1;
    const side = Math.max(1, Math.round(look.size * Math.max(0.5, closer) * look.ratio));
    const left = Math.round(at[3 * i]! * look.ratio - side / 2);
    const top = Math.round(at[3 * i + 1]! * look.ratio - side / 2);
    if (left < 0 || top < 0 || left + side > width || top + side > height) continue;
    const [r, g, b] = colours[kinds[i]!] as [number, number, number];
    const cover = Math.min(1, look.strength * closer);
    for (let y = top; y < top + side; y++) {
      for (let k = 4 * (y * width + left), end = k + 4 * side; k < end; k += 4) {
        const before = (data[k + 3]! / 255) * (1 - cover);
        const both = before + cover;
        data[k] = (data[k]! * before + r * cover) / both;
        data[k + 1] = (data[k + 1]! * before + g * cover) / both;
        data[k + 2] = (data[k + 2]! * before + b * cover) / both;
        data[k + 3] = 255 * both;
      }
    }
  }
}

/** The point nearest to a pixel, or -1 where none is near. */
export function nearest(at: Float32Array, x: number, y: number, skip: (i: number) => boolean, within = 12): number {
  let [best, found] = [within * within, -1];
  for (let i = 0; i < at.length / 3; i++) {
    const far = (at[3 * i]! - x) ** 2 + (at[3 * i + 1]! - y) ** 2;
    if (far < best && !skip(i)) [best, found] = [far, i];
  }
  return found;
}

/** Zoom about a pixel, which stays where it is. */
export function zoomed(view: View, by: number, x: number, y: number, width: number, height: number): View {
  const zoom = Math.min(200, Math.max(0.4, view.zoom * by));
  const [dx, dy] = [x - width / 2, y - height / 2];
  const grown = zoom / view.zoom;
  return { ...view, zoom, x: dx - (dx - view.x) * grown, y: dy - (dy - view.y) * grown };
}

/** Names that lie neither over each other nor over what is covered, the first ones first. */
export function labelled(
  wanted: number[],
  at: Float32Array,
  wide: (i: number) => number,
  high: number,
  covered: [number, number, number, number],
): number[] {
  const taken = [covered];
  return wanted.filter((i) => {
    const [x, y, w] = [at[3 * i]! + 7, at[3 * i + 1]! - high / 2, wide(i)];
    const free = taken.every(([l, t, r, b]) => x + w < l || x > r || y + high < t || y > b);
    if (free) taken.push([x, y, x + w, y + high]);
    return free;
  });
}
