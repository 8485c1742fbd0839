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

export default defineConfig({
  plugins: [onlyWoff2, svelte()],
  build: {
    outDir: "../src/vesalius/explorer/page",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content policy knows no data: addresses
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
