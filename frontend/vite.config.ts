import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** KaTeX's styles without what no formula here needs: each font in two older forms than woff2, and
    the way from each of its eleven sizes to each other; text, index and index of an index are three. */
const fewerStyles: Plugin = {
  name: "fewer-katex-styles",
  enforce: "pre",
  transform(code, id) {
    if (!id.includes("katex.min.css")) return null;
    return code
      .replace(/,url\([^)]+\.(?:woff|ttf)\) format\("[a-z]+"\)/g, "")
      .replace(/[^{}]*\.reset-size(\d+)\.size(\d+)\{[^}]*\}/g, (rule, from, to) =>
        [from, to].every((size) => ["1", "3", "6"].includes(size)) ? rule : "",
      );
  },
};

/** What is bundled keeps its licence beside it. */
const licences: Plugin = {
  name: "licences",
  generateBundle() {
    const texts = ["katex/LICENSE", "svelte/LICENSE.md"].map((file) => {
      const text = readFileSync(new URL(`node_modules/${file}`, import.meta.url), "utf-8");
      return `${file.split("/")[0]}\n\n${text.trim()}\n`;
    });
    this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join("\n\n") });
  },
};

/** Names of scoped styles stand some thousand times in the page: short ones save 17 KB. */
const cssHash = ({ hash, css }: { hash: (text: string) => string; css: string }): string => `s${hash(css).slice(0, 5)}`;

export default defineConfig({
  plugins: [fewerStyles, licences, svelte({ compilerOptions: { cssHash } })],
  build: {
    outDir: "../src/vesalius/explorer/page",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content policy knows no data: addresses
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  test: { environment: "happy-dom", include: ["tests/**/*.test.ts"] },
  resolve: process.env.VITEST ? { conditions: ["browser"] } : {},
});
