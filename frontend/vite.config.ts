import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** Every browser that runs this page reads woff2; KaTeX brings each font in two older forms too. */
const onlyWoff2: Plugin = {
  name: "only-woff2",
  enforce: "pre",
  transform(code, id) {
    if (!id.includes("katex.min.css")) return null;
    return code.replace(/,url\([^)]+\.(?:woff|ttf)\) format\("[a-z]+"\)/g, "");
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
  plugins: [onlyWoff2, licences, svelte({ compilerOptions: { cssHash } })],
  build: {
    outDir: "../src/vesalius/explorer/page",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content policy knows no data: addresses
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
