import hooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import ts from "typescript-eslint";

const markup = "Untrusted text must not be rendered as markup: use <Untrusted>.";

export default defineConfig(
  { ignores: ["src/gen", "node_modules", "test-results", "playwright-report"] },
  ts.configs.strictTypeChecked,
  ts.configs.stylisticTypeChecked,
  { ...hooks.configs.flat.recommended, files: ["src/**/*.{ts,tsx}"] },
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js"] } } },
    rules: {
      eqeqeq: "error",
      "no-console": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: markup },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: markup },
        { selector: "JSXOpeningElement[name.name='style']", message: "The content security policy refuses <style>: use a class." },
      ],
      "no-eval": "error",
      "no-implied-eval": "error",
    },
  },
  {
    // Some Radix components (Overlay, Select, ScrollArea, modal menus) insert <style>, which the
    // content security policy refuses. Only src/ui imports Radix and avoids them.
    files: ["src/**/*.{ts,tsx}"],
    ignores: ["src/ui/**"],
    rules: { "no-restricted-imports": ["error", { paths: [{ name: "radix-ui", message: "Use or add a primitive in src/ui." }] }] },
  },
  { files: ["**/*.js"], extends: [ts.configs.disableTypeChecked] },
);
