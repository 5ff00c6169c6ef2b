/** The output of `nft -s list table` as sections; elements one a line, those that the packet path adds left out. */
import { type Section, sorted } from "./section.ts";

/** Empty when there is no such table. */
export function nftSections(listing: string): readonly Section[] {
  const sections: Section[] = [];
  let block: { readonly name: string; readonly lines: string[] } | undefined;
  let elements: string | undefined;
  for (const raw of listing.split("\n")) {
    const line = raw.trim();
    const opening = /^(chain|map|set) (\S+) \{$/.exec(line);
    if (block === undefined) {
      if (opening !== null) block = { name: `${opening[1]} ${opening[2]}`, lines: [] };
      continue;
    }
    if (elements !== undefined) elements += ` ${line}`;
    else if (line.startsWith("elements = {")) elements = line.slice("elements = {".length);
    else if (line === "}") {
      sections.push({ ...block, ordered: block.name.startsWith("chain ") });
      block = undefined;
    } else if (line !== "") block.lines.push(line);
    if (elements?.trimEnd().endsWith("}") === true && block !== undefined) {
      if (!isDynamic(block.lines)) sections.push(sorted(`elements of ${block.name}`, split(elements)));
      elements = undefined;
    }
  }
  return sections.sort((a, b) => (a.name < b.name ? -1 : 1));
}

// --- internal ---

function isDynamic(lines: readonly string[]): boolean {
  return lines.some((line) => line.startsWith("flags") && line.includes("dynamic"));
}

/** `a, "b, c" . d }` at the commas outside quotes. */
function split(text: string): readonly string[] {
  const parts =
    text
      .trimEnd()
      .slice(0, -1)
      .match(/(?:"[^"]*"|[^,"])+/g) ?? [];
  return parts.map((part) => part.trim().replace(/\s+/g, " ")).filter((part) => part !== "");
}
