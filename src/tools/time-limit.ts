/** How long a tool may take for its input before it counts as hanging. */

/**
 * Milliseconds: 30 seconds, plus 50 for each kilobyte. A full load of 10,000 Services (5 MB) takes 12 s here and may take
 * twenty times as long; a change of one Service that takes half a minute will never end.
 */
export function timeLimit(input: readonly string[]): number {
  let size = 0;
  for (const piece of input) size += piece.length;
  return Math.min(30_000 + Math.ceil(size / 1024) * 50, 600_000);
}
