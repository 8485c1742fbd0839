/* Whatever stands on the page as a drawing in vectors: boxes, texts, figures and canvases.

   The page is read as the browser laid it out, so that every picture has an SVG without code of its
   own. A canvas is an image in it, unless it says its cells (see `vectors`). */

const DASHES: Record<string, string> = { dashed: ' stroke-dasharray="4 3"', dotted: ' stroke-dasharray="1.5 2"' };

export interface Drawing {
  width: number;
  height: number;
  body: string;
}

/** Cells of a canvas in vectors, in its own pixels of CSS; for those who have few. */
export const vectors = new WeakMap<HTMLCanvasElement, () => string | null>();

const INKS = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "font-style",
  "text-anchor",
  "text-decoration-line",
  "paint-order",
];

const measuring = document.createElement("canvas").getContext("2d");

export const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]!);

const round = (x: number): string => String(Math.round(100 * x) / 100);

/** A colour as every program reads it, and how much of it there is. */
export function ink(colour: string): [string, number] {
  const numbers = (/\((.*)\)/.exec(colour)?.[1] ?? "").match(/[\d.]+(e-?\d+)?%?/g)?.map(parseFloat) ?? [];
  if (numbers.length < 3) return [colour, colour === "transparent" ? 0 : 1];
  const parts = numbers.slice(0, 3).map((x) => Math.round(colour.startsWith("color(") ? 255 * x : x));
  return [`#${parts.map((x) => x.toString(16).padStart(2, "0")).join("")}`, numbers[3] ?? 1];
}

function filled(name: string, colour: string, opacity = 1): string {
  const [hex, alpha] = ink(colour);
  const share = alpha * opacity;
  return `${name}="${hex}"${share < 1 ? ` ${name}-opacity="${round(share)}"` : ""}`;
}

interface Inherited {
  opacity: number;
  decoration: string;
  clip: DOMRect | null;
}

class Pen {
  readonly out: string[] = [];
  private clips = 0;

  constructor(private readonly frame: DOMRect) {}

  private place(box: { left: number; top: number }): [number, number] {
    return [box.left - this.frame.left, box.top - this.frame.top];
  }

  walk(element: Element, from: Inherited): void {
    const style = getComputedStyle(element);
    if (element.hasAttribute("data-apart") || style.display === "none" || style.visibility === "hidden") return;
    const line = style.textDecorationLine;
    const inherited = {
      opacity: from.opacity * Number(style.opacity),
      decoration: line && line !== "none" ? line : style.display.startsWith("inline-") ? "" : from.decoration,
      clip: style.overflow === "visible" ? from.clip : element.getBoundingClientRect(),
    };
    if (element instanceof SVGSVGElement) return this.figure(element, inherited.opacity);
    if (element instanceof HTMLCanvasElement) return this.canvas(element);
    this.box(element, style, inherited.opacity);
    for (const child of element.childNodes) {
      if (child instanceof Element) this.walk(child, inherited);
      else if (child instanceof Text && child.data.trim()) this.text(child, style, inherited);
    }
  }

  private box(element: Element, style: CSSStyleDeclaration, opacity: number): void {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const [x, y] = this.place(box);
    const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2, box.width / 2);
    const shape = (by: number): string =>
      `<rect x="${round(x - by)}" y="${round(y - by)}" width="${round(box.width + 2 * by)}" ` +
      `height="${round(box.height + 2 * by)}" rx="${round(Math.max(0, radius + by))}"`;
    for (const ring of style.boxShadow.matchAll(/(\w+\([^)]*\)) 0px 0px 0px ([\d.]+)px(?! inset)/g)) {
      const wide = Number(ring[2]);
      this.out.push(
        `${shape(wide / 2 + 1)} fill="none" ${filled("stroke", ring[1]!, opacity)} stroke-width="${wide / 2}"/>`,
      );
    }
    if (ink(style.backgroundColor)[1] > 0)
      this.out.push(`${shape(0)} ${filled("fill", style.backgroundColor, opacity)}/>`);
    if (element.classList.contains("hatched")) this.out.push(`${shape(0)} fill="url(#hatching)"/>`);
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => ({
      width: parseFloat(style.getPropertyValue(`border-${side.toLowerCase()}-width`)),
      kind: style.getPropertyValue(`border-${side.toLowerCase()}-style`),
      colour: style.getPropertyValue(`border-${side.toLowerCase()}-color`),
    }));
    const drawn = sides.map((side) => side.width > 0 && side.kind !== "none" && ink(side.colour)[1] > 0);
    const stroke = (side: (typeof sides)[number]): string =>
      `fill="none" ${filled("stroke", side.colour, opacity)} stroke-width="${side.width}"${DASHES[side.kind] ?? ""}`;
    if (drawn.every(Boolean)) this.out.push(`${shape(-sides[0]!.width / 2)} ${stroke(sides[0]!)}/>`);
    else {
      const [r, b] = [x + box.width, y + box.height];
      const ways = [
        `M${round(x)} ${round(y)}H${round(r)}`,
        `M${round(r)} ${round(y)}V${round(b)}`,
        `M${round(x)} ${round(b)}H${round(r)}`,
        `M${round(x)} ${round(y)}V${round(b)}`,
      ];
      sides.forEach((side, i) => drawn[i] && this.out.push(`<path d="${ways[i]}" ${stroke(side)}/>`));
    }
  }

  /** A text, line by line, where the browser set it. */
  private text(node: Text, style: CSSStyleDeclaration, from: Inherited): void {
    const range = document.createRange();
    range.selectNodeContents(node);
    if (range.getClientRects().length === 1) return this.line(node.data, range.getBoundingClientRect(), style, from);
    let [start, box]: [number, DOMRect | null] = [0, null];
    for (let i = 0; i <= node.length; i++) {
      range.setStart(node, Math.min(i, node.length - 1));
      range.setEnd(node, Math.min(i + 1, node.length));
      const one = range.getBoundingClientRect();
      if (i === node.length || (box && one.height && one.top > box.bottom - 2)) {
        range.setStart(node, start);
        range.setEnd(node, i);
        this.line(node.data.slice(start, i), range.getBoundingClientRect(), style, from);
        [start, box] = [i, null];
      }
      box ??= one.height ? one : null;
    }
  }

  private line(data: string, box: DOMRect, style: CSSStyleDeclaration, from: Inherited): void {
    const text = data.replace(/\s+/g, " ");
    if (!text.trim() || !box.width) return;
    const font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    let ascent = 0.8 * parseFloat(style.fontSize);
    if (measuring) {
      measuring.font = font;
      ascent = measuring.measureText(text).fontBoundingBoxAscent;
    }
    const [x, y] = this.place(box);
    const written = style.textTransform === "uppercase" ? text.toUpperCase() : text;
    const said = [
      `x="${round(x)}" y="${round(y + ascent)}" textLength="${round(box.width)}" lengthAdjust="spacingAndGlyphs"`,
      `font-family="${escaped(style.fontFamily)}" font-size="${style.fontSize}"`,
      filled("fill", style.color, from.opacity),
    ];
    if (style.fontWeight !== "400") said.push(`font-weight="${style.fontWeight}"`);
    if (style.fontStyle !== "normal") said.push(`font-style="${style.fontStyle}"`);
    if (from.decoration) said.push(`text-decoration="${from.decoration}"`);
    const clip = from.clip;
    if (clip && (box.right > clip.right + 1 || box.left < clip.left - 1)) {
      const [left, top] = this.place(clip);
      const id = `clip${++this.clips}`;
      this.out.push(
        `<clipPath id="${id}"><rect x="${round(left)}" y="${round(top)}" ` +
          `width="${round(clip.width)}" height="${round(clip.height)}"/></clipPath>`,
      );
      said.push(`clip-path="url(#${id})"`);
    }
    this.out.push(`<text ${said.join(" ")}>${escaped(written).replace(/^ | $/g, "\u00a0")}</text>`);
  }

  /** An SVG of the page, whose styles become attributes that other programs read. */
  private figure(svg: SVGSVGElement, opacity: number): void {
    const copy = svg.cloneNode(true) as SVGSVGElement;
    const [olds, news] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
    olds.forEach((old, i) => {
      const style = getComputedStyle(old);
      const now = news[i]!;
      for (const name of INKS) {
        const value = style.getPropertyValue(name);
        const colour = name === "fill" || name === "stroke";
        if (value) now.setAttribute(name.replace("-line", ""), colour ? ink(value)[0] : value);
        if (colour && ink(value)[1] < 1) now.setAttribute(`${name}-opacity`, String(ink(value)[1]));
      }
      for (const name of ["class", "style", "role", "tabindex"]) now.removeAttribute(name);
    });
    const box = svg.getBoundingClientRect();
    const [x, y] = this.place(box);
    for (const name of ["class", "style", "role"]) copy.removeAttribute(name);
    for (const [name, value] of Object.entries({
      x,
      y,
      width: box.width,
      height: box.height,
      opacity,
      overflow: "visible",
    })) {
      copy.setAttribute(name, typeof value === "number" ? round(value) : value);
    }
    this.out.push(new XMLSerializer().serializeToString(copy).replaceAll("<!---->", ""));
  }

  private canvas(canvas: HTMLCanvasElement): void {
    const box = canvas.getBoundingClientRect();
    const [x, y] = this.place(box);
    const cells = vectors.get(canvas)?.();
    if (cells) this.out.push(`<g transform="translate(${round(x)} ${round(y)})">${cells}</g>`);
    else if (canvas.width && canvas.height) {
      this.out.push(
        `<image x="${round(x)}" y="${round(y)}" width="${round(box.width)}" height="${round(box.height)}" ` +
          `href="${canvas.toDataURL()}"/>`,
      );
    }
  }
}

export function drawn(root: HTMLElement): Drawing {
  const frame = root.getBoundingClientRect();
  const pen = new Pen(frame);
  for (const child of root.children) pen.walk(child, { opacity: 1, decoration: "", clip: null });
  return {
    width: Math.max(frame.width, root.scrollWidth),
    height: Math.max(frame.height, root.scrollHeight),
    body: pen.out.join("\n"),
  };
}

const theirs = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A sentence in lines that fit. */
function broken(text: string, width: number): string[] {
  const lines = [""];
  if (measuring) measuring.font = `11.5px ${theirs("--text")}`;
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && (measuring?.measureText(longer).width ?? 0) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/** The drawing on paper, with a line below that says what it shows; hatched where something was cut. */
export function framed({ width, height, body }: Drawing, said: string[], edited: boolean): string {
  const lines = said.flatMap((line, i) => broken(line, width).map((text) => ({ text, strong: i > 0 && edited })));
  const [margin, foot] = [edited ? 26 : 18, 17];
  const [wide, high] = [Math.ceil(width + 2 * margin), Math.ceil(height + 2 * margin + foot * lines.length)];
  const [paper, soft, score, hatch] = ["--paper", "--soft", "--score", "--hatch"].map((name) => ink(theirs(name))[0]);
  const stripes = (id: string, colour: string, gap: number, thick: number): string =>
    `<pattern id="${id}" width="${gap}" height="${gap}" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">` +
    `<path d="M0 ${gap / 2}H${gap}" stroke="${colour}" stroke-width="${thick}"/></pattern>`;
  const text = lines.map(
    (line, i) =>
      `<text x="${margin}" y="${Math.round(height + margin + 16 + foot * i)}" ` +
      `font-family="${escaped(theirs("--text"))}" font-size="11.5px" ` +
      `fill="${line.strong ? score : soft}">${escaped(line.text)}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${wide}" height="${high}" viewBox="0 0 ${wide} ${high}">`,
    `<title>${escaped(said.join(" · "))}</title>`,
    `<defs>${stripes("hatching", hatch!, 6, 1.4)}${stripes("cuts", score!, 11, 5)}</defs>`,
    `<rect width="${wide}" height="${high}" fill="${paper}"/>`,
    edited
      ? `<path d="M0 0H${wide}V${high}H0zM6 6V${high - 6}H${wide - 6}V6z" fill="url(#cuts)" fill-rule="evenodd"/>`
      : "",
    `<g transform="translate(${margin} ${margin})">\n${body}\n</g>`,
    ...text,
    "</svg>\n",
  ]
    .filter(Boolean)
    .join("\n");
}

/** The drawing in pixels, twice as fine as the page. */
export async function pixels(svg: string): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) =>
      canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))), "image/png"),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}
