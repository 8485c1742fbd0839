/* What heat maps have in common: hatching where there is no number, and digits that fit a cell. */

import { number, small } from "./format";

/** Lines across a cell that holds no number, or a masked one. */
export function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  wide: number,
  high: number,
  colour: string,
): void {
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  for (let k = -high; k < wide; k += 6) {
    context.beginPath();
    context.moveTo(x + k, y + high);
    context.lineTo(x + k + high, y);
    context.stroke();
  }
  context.restore();
}

const pen = document.createElement("canvas").getContext("2d");

/** As many significant digits as have room, four at most; then its power of ten; then nothing. */
export function fitting(x: number, room: number, font: string): string {
  if (!pen) return "";
  pen.font = font;
  const power = (x < 0 ? "−" : "") + small(x);
  const ways = [4, 3, 2, 1].map((digits) => number(x, digits));
  return [...ways, power].find((text) => pen.measureText(text).width <= room) ?? "";
}
