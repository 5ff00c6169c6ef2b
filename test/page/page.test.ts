/** The status page in headless Chromium: facts, search, details, explain, both colour schemes, many Services, hostile text. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Browser, chromium } from "./browser.ts";
import { lowestContrast } from "./contrast.ts";
import { type PageServer, services, startPage } from "./page-server.ts";

setDefaultTimeout(60_000);

/** PAGE_PICTURES=FOLDER keeps the pictures, to be looked at. */
const kept = process.env["PAGE_PICTURES"];
const pictures = kept ?? mkdtempSync(join(tmpdir(), "kube-proxy-pictures-"));
const hostile = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;

if (chromium === null) console.log("status page: skipped: needs Chromium (Debian package chromium)");

describe.skipIf(chromium === null)("status page", () => {
  let browser: Browser;
  const servers: PageServer[] = [];

  beforeAll(async () => {
    mkdirSync(pictures, { recursive: true });
    browser = await Browser.start(chromium ?? "");
  });

  afterAll(async () => {
    await browser?.close();
    for (const server of servers) server.close();
    if (kept === undefined) rmSync(pictures, { recursive: true, force: true });
  });

  async function open(count: number, query = ""): Promise<PageServer> {
    const server = startPage(services(count));
    servers.push(server);
    server.status.warnings.add(hostile);
    browser.complaints.length = 0;
    await browser.send("Page.navigate", { url: server.url + query });
    await browser.until("document.querySelectorAll('#rows tr').length > 0 && document.querySelector('#facts dd')");
    return server;
  }

  const text = (selector: string): Promise<string> =>
    browser.evaluate<string>(`document.querySelector(${JSON.stringify(selector)}).innerText`);
  const fits = (): Promise<boolean> =>
    browser.evaluate<boolean>("document.documentElement.scrollWidth <= document.documentElement.clientWidth");

  test("three Services, light and dark: facts, curves, a verdict, nothing but text from others", async () => {
    await browser.resize(1200, 1500);
    await browser.prefer("light");
    await open(3, "?from=external&to=203.0.113.0:80");
    await browser.until("document.querySelector('#verdict .steps')");
    expect(await text("#health")).toBe("Healthy");
    expect(await text("#facts")).toContain("3 Services");
    expect(await text("#verdict .fate")).toBe("Sent to one of these 2 endpoints:");
    expect(await text("#verdict")).toContain("10.244.1.1:8080");
    expect(await browser.evaluate<number>("document.querySelectorAll('#sync-chart polyline').length")).toBe(2);
    expect(await browser.evaluate<number>("document.querySelectorAll('#change-chart rect').length")).toBeGreaterThan(
      20,
    );
    expect(await text("#remark-list")).toContain(hostile);
    expect(
      await browser.evaluate<number>("document.querySelectorAll('#remark-list img, #remark-list script').length"),
    ).toBe(0);
    await browser.picture(`${pictures}/three-light.png`);
    const light = await browser.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    await browser.prefer("dark");
    expect(await browser.evaluate<string>("getComputedStyle(document.body).backgroundColor")).not.toBe(light);
    await browser.picture(`${pictures}/three-dark.png`);
    expect(await browser.evaluate<string>("document.title")).toBe("kube-proxy · node-1");
    expect(browser.complaints).toEqual([]);
  });

  test("2,000 Services: a hundred at a time, search by name, address and endpoint, details of one", async () => {
    await browser.prefer("light");
    await open(2000);
    const rows = (): Promise<number> =>
      browser.evaluate<number>("document.querySelectorAll('#rows > tr:not(.details)').length");
    expect(await rows()).toBe(100);
    expect(await text("#count")).toBe("2,000 Services, the first 100 shown");
    await browser.picture(`${pictures}/many-light.png`);
    await browser.evaluate("document.getElementById('more').click()");
    await browser.until("document.querySelectorAll('#rows > tr').length === 200");
    for (const [search, count] of [
      ["svc-1999", "1 of 2,000 Services match"],
      ["10.96.7.208", "1 of 2,000 Services match"],
      ["10.244.16.79:8080", "1 of 2,000 Services match"],
      ["nothing-like-it", "0 of 2,000 Services match"],
    ]) {
      await browser.evaluate(
        `(() => { const s = document.getElementById('search'); s.value = ${JSON.stringify(search)}; s.dispatchEvent(new Event('input')); })()`,
      );
      await browser.until(`document.getElementById('count').innerText === ${JSON.stringify(count)}`);
    }
    await browser.evaluate(
      "(() => { const s = document.getElementById('search'); s.value = 'svc-9 '; s.dispatchEvent(new Event('input')); })()",
    );
    await browser.until("document.querySelector('#rows button')?.innerText === 'shop/svc-9'");
    await browser.evaluate("document.querySelector('#rows button').click()");
    await browser.until("document.querySelector('tr.details li')");
    expect(await text("tr.details")).toContain("left out: not ready");
    await browser.prefer("dark");
    await browser.picture(`${pictures}/many-dark.png`);
    await browser.evaluate("document.querySelector('tr.details .try').click()");
    await browser.until("document.querySelector('#verdict .fate')");
    expect(await text("#verdict .fate")).toBe("Sent to this endpoint:");
    expect(browser.complaints).toEqual([]);
  });

  test("a wrong question is answered by one line", async () => {
    await open(3);
    for (const [to, answer] of [
      ["10.96.0.1", "is not of the form IP:port"],
      [hostile, "is not of the form IP:port"],
      ["10.96.0.1:99999", "99999 is not a port"],
    ] as const) {
      await browser.evaluate(
        `(() => { document.getElementById('to').value = ${JSON.stringify(to)}; document.getElementById('explain-form').requestSubmit(); })()`,
      );
      await browser.until(`document.querySelector('#verdict')?.innerText.includes(${JSON.stringify(answer)})`);
    }
    expect(await browser.evaluate<number>("document.querySelectorAll('#verdict img').length")).toBe(0);
    // The browser itself remarks on answers with status 400; nothing else may be said.
    expect(browser.complaints.filter((line) => !line.includes("400 (Bad Request)"))).toEqual([]);
  });

  test("a telephone's width has no sideways scrolling, and every field has a label", async () => {
    await browser.resize(390, 1600);
    await browser.prefer("light");
    await open(12, "?to=10.96.0.1:80");
    await browser.until("document.querySelector('#verdict .steps')");
    expect(await fits()).toBe(true);
    await browser.picture(`${pictures}/narrow-light.png`);
    await browser.resize(1200, 1000);
    expect(await fits()).toBe(true);
    expect(
      await browser.evaluate<number>(
        "[...document.querySelectorAll('input')].filter((i) => i.labels.length === 0).length",
      ),
    ).toBe(0);
  });

  test("every text has the contrast that WCAG AA asks for, in both schemes", async () => {
    await browser.resize(1200, 1500);
    await open(12, "?from=192.0.2.1&to=10.96.0.11:80");
    await browser.until("document.querySelector('#verdict .steps')");
    await browser.evaluate("document.querySelector('#rows button').click()");
    await browser.until("document.querySelector('tr.details li')");
    for (const scheme of ["light", "dark"] as const) {
      await browser.prefer(scheme);
      const { ratio, text: where } = await browser.evaluate<{ ratio: number; text: string }>(lowestContrast);
      expect([scheme, where, ratio >= 4.5]).toEqual([scheme, where, true]);
      expect(ratio).toBeLessThan(21);
    }
  });

  test("a proxy that no longer answers is said to", async () => {
    const server = await open(3);
    server.close();
    await browser.until("!document.getElementById('lost').hidden");
    expect(await text("#lost")).toContain("old");
  });
});

test("the page loads nothing from elsewhere, and takes no other method than GET and HEAD", async () => {
  const server = startPage(services(1));
  try {
    const answer = await fetch(server.url);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toStartWith("default-src 'none'; script-src 'sha256-");
    expect(policy).not.toContain("unsafe");
    const body = await answer.text();
    expect(body).not.toMatch(/(src|href)\s*=\s*"?(https?:)?\/\//);
    expect(body).not.toContain("innerHTML");
    expect((await fetch(server.url, { method: "POST" })).status).toBe(405);
    expect((await fetch(`${server.url}services.json?offset=-1`)).status).toBe(200);
    expect((await fetch(`${server.url}explain?from=a&to=10.0.0.1:80`)).status).toBe(400);
  } finally {
    server.close();
  }
});
