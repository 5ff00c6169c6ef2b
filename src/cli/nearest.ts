/** The known word that a mistyped one is closest to. */

/** Fewest edits for its length decides; sharing the first part (up to a dash) counts much. Undefined: no words known. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const lower = word.toLowerCase().replaceAll("_", "-");
  const scored = known.map((candidate) => ({ candidate, score: score(lower, candidate.toLowerCase()) }));
  return scored.sort((a, b) => a.score - b.score)[0]?.candidate;
}

/** The known word that a word is most likely a slip of; undefined when none is near. */
export function nearMiss(word: string, known: readonly string[]): string | undefined {
  return known.find((candidate) => edits(word.slice(0, 64), candidate) <= Math.max(1, candidate.length / 3));
}

function score(word: string, candidate: string): number {
  const bonus = word.split("-")[0] === candidate.split("-")[0] ? 0.5 : 0;
  return edits(word.slice(0, 64), candidate) / Math.max(word.length, candidate.length) - bonus;
}

/** Levenshtein distance. */
function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
