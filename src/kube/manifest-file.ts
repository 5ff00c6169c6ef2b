/** One manifest file, YAML or JSON, to API objects; an error says line and column. */
import { LineCounter, parseAllDocuments } from "yaml";
import { field } from "../model/json.ts";

export type ManifestContent =
  | { readonly kind: "objects"; readonly objects: readonly unknown[] }
  /** `at`: `line:column` or empty. */
  | { readonly kind: "broken"; readonly at: string; readonly message: string };

/** The objects of all documents, Lists taken apart. Documents that are empty count for nothing. */
export function readManifest(text: string): ManifestContent {
  const json = asJson(text);
  if (json !== undefined) return flatten([json]);
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, version: "1.2" });
  const contents: unknown[] = [];
  for (const document of "empty" in documents ? [] : documents) {
    const [error] = document.errors;
    if (error !== undefined) {
      const { line, col } = lines.linePos(error.pos[0]);
      return {
        kind: "broken",
        at: `${line}:${col}`,
        message: error.message.split("\n")[0]?.replace(/ at line .*$/, "") ?? "",
      };
    }
    const start = lines.linePos(document.contents?.range?.[0] ?? 0);
    let content: unknown;
    try {
      content = document.toJS({ maxAliasCount: 1000 });
    } catch (error) {
      return { kind: "broken", at: `${start.line}:${start.col}`, message: String(error) };
    }
    if (content === null || content === undefined) continue;
    if (typeof field(content, "kind") !== "string") {
      return {
        kind: "broken",
        at: `${start.line}:${start.col}`,
        message: "the document has no kind: it is no Kubernetes object",
      };
    }
    contents.push(content);
  }
  return flatten(contents);
}

// --- internal ---

/** Large JSON files are read fast; anything else, broken JSON too, is left to the YAML parser, which knows positions. */
function asJson(text: string): unknown {
  if (!/^\s*\{/.test(text)) return undefined;
  try {
    const content: unknown = JSON.parse(text);
    return typeof field(content, "kind") === "string" ? content : undefined;
  } catch {
    return undefined;
  }
}

function flatten(contents: readonly unknown[]): ManifestContent {
  const objects = contents.flatMap((content) => {
    const items = field(content, "items");
    return String(field(content, "kind")).endsWith("List") && Array.isArray(items) ? (items as unknown[]) : [content];
  });
  return { kind: "objects", objects };
}
