/** WCAG contrast of the page's texts, worked out in the browser. */

/** An expression: the lowest contrast among visible texts, with the text it was found at. */
export const lowestContrast = `(() => {
  const parse = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => {
    const part = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const backOf = (element) => {
    for (let e = element; e !== null; e = e.parentElement) {
      const back = parse(getComputedStyle(e).backgroundColor);
      if (back.length === 3 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  let lowest = { ratio: 21, text: "" };
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
    if (text === "" || element.checkVisibility() === false || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    const [a, b] = [luminance(parse(getComputedStyle(element).color)), luminance(backOf(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < lowest.ratio) lowest = { ratio, text: text.slice(0, 40) };
  }
  return lowest;
})()`;
