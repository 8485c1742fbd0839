import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

const SVELTE = ["**/*.svelte", "**/*.svelte.ts"];

export default ts.config(
  { ignores: ["node_modules/"] },
  ...ts.configs.strict,
  ...ts.configs.stylistic,
  ...svelte.configs.recommended,
  {
    files: SVELTE,
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: [".svelte"], svelteConfig } },
  },
  {
    files: ["{src,tests}/**/*.ts", "src/**/*.svelte"],
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-floating-promises": "error", // its failure would be nobody's
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/explicit-function-return-type": ["error", { allowExpressions: true }],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-console": "error",
    },
  },
  {
    rules: {
      "@typescript-eslint/no-non-null-assertion": "off", // for indices, which noUncheckedIndexedAccess doubts
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "svelte/no-unused-svelte-ignore": "off", // svelte-check says which are needed
      "svelte/no-useless-mustaches": "off", // they keep blanks that would be lost at the end of a line
      "svelte/prefer-svelte-reactivity": "off", // what is shown is held by $state; other maps are only remembered
    },
  },
);
