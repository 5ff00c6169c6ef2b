/** A headless Chromium driven over its debugging protocol: load, evaluate, resize, take pictures. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { file, spawn, which } from "bun";

export const chromium = which("chromium");

const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--hide-scrollbars",
  "--remote-debugging-port=0",
];

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

export class Browser {
  /** Violations of the page's policy, exceptions and errors it logged. */
  readonly complaints: string[] = [];
  readonly #socket: WebSocket;
  readonly #end: () => Promise<void>;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #next = 1;

  private constructor(socket: WebSocket, end: () => Promise<void>) {
    this.#socket = socket;
    this.#end = end;
    socket.onmessage = ({ data }) => this.#received(JSON.parse(String(data)));
  }

  static async start(program: string): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), "kube-proxy-page-"));
    const child = spawn([program, ...flags, `--user-data-dir=${folder}`, "about:blank"], {
      stdout: "ignore",
      stderr: "ignore",
    });
    const end = async (): Promise<void> => {
      child.kill(9);
      await child.exited;
      // Its helpers may write a moment longer.
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    };
    try {
      const port = await portOf(join(folder, "DevToolsActivePort"));
      const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as {
        type: string;
        webSocketDebuggerUrl: string;
      }[];
      const target = targets.find(({ type }) => type === "page");
      if (target === undefined) throw new Error("Chromium has no page");
      const socket = new WebSocket(target.webSocketDebuggerUrl);
      await new Promise<void>((resolve, reject) => {
        socket.onopen = () => resolve();
        socket.onerror = () => reject(new Error("no connection to Chromium"));
      });
      const browser = new Browser(socket, end);
      for (const domain of ["Page", "Runtime", "Log"]) await browser.send(`${domain}.enable`);
      return browser;
    } catch (error) {
      await end();
      throw error;
    }
  }

  send(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, ({ result, error }) =>
        error === undefined ? resolve(result ?? {}) : reject(new Error(`${method}: ${error.message}`)),
      );
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }

  async evaluate<T>(expression: string): Promise<T> {
    const answer = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    const { result, exceptionDetails } = answer as { result: { value: T }; exceptionDetails?: { text: string } };
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  /** Until the expression is true; throws after ten seconds. */
  async until(expression: string): Promise<void> {
    for (let i = 0; i < 200; i++) {
      if (await this.evaluate<boolean>(`Boolean(${expression})`)) return;
      await Bun.sleep(50);
    }
    throw new Error(`never true: ${expression}`);
  }

  async resize(width: number, height: number): Promise<void> {
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send("Emulation.setDeviceMetricsOverride", metrics);
  }

  async prefer(scheme: "light" | "dark"): Promise<void> {
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  }

  async picture(path: string): Promise<void> {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    await Bun.write(path, Buffer.from(String(data), "base64"));
  }

  async close(): Promise<void> {
    this.#socket.close();
    await this.#end();
  }

  // --- internal ---

  #received(message: Message): void {
    if (message.id !== undefined) {
      this.#waiting.get(message.id)?.(message);
      this.#waiting.delete(message.id);
      return;
    }
    const { method, params = {} } = message;
    const isError = method === "Log.entryAdded" && (params["entry"] as { level: string }).level === "error";
    if (method === "Runtime.exceptionThrown" || isError) this.complaints.push(JSON.stringify(params));
  }
}

/** Chromium writes the port that it chose into this file. */
async function portOf(path: string): Promise<number> {
  for (let i = 0; i < 300; i++) {
    const port = Number(
      (
        await file(path)
          .text()
          .catch(() => "")
      ).split("\n")[0],
    );
    if (port > 0) return port;
    await Bun.sleep(100);
  }
  throw new Error("Chromium did not say its port within 30 s");
}
