/** One poll loop over sockets of many namespaces: the lab's servers and clients all live in this process. */
import { closeSync, openSync } from "node:fs";
import { close, enter, poll } from "./libc.ts";

type Handler = (events: number) => void;

export class Wire {
  private readonly home = openSync("/proc/thread-self/ns/net", "r");
  private readonly namespaces = new Map<string, number>();
  private readonly handlers = new Map<number, { events: number; readonly handle: Handler }>();

  /** Runs `work` with this thread inside the named namespace; `work` must not await. */
  inside<T>(namespace: string, work: () => T): T {
    let fd = this.namespaces.get(namespace);
    if (fd === undefined) {
      fd = openSync(`/run/netns/${namespace}`, "r");
      this.namespaces.set(namespace, fd);
    }
    enter(fd);
    try {
      return work();
    } finally {
      enter(this.home);
    }
  }

  watch(fd: number, events: number, handle: Handler): void {
    this.handlers.set(fd, { events, handle });
  }

  /** Stops serving a socket without closing it. */
  forget(fd: number): void {
    this.handlers.delete(fd);
  }

  /** Forgets and closes a socket. */
  drop(fd: number): void {
    if (this.handlers.delete(fd)) {
      close(fd);
    }
  }

  /** Serves whatever happens within `ms`. */
  turn(ms: number): void {
    const wanted = [...this.handlers].map(([fd, { events }]) => ({ fd, events }));
    const happened = poll(wanted, ms);
    for (const [i, { fd }] of wanted.entries()) {
      const events = happened[i] ?? 0;
      if (events !== 0) {
        this.handlers.get(fd)?.handle(events);
      }
    }
  }

  /** Serves until `done` or `ms` passed, letting Bun's own input and output go on; true when done. */
  async until(done: () => boolean, ms: number): Promise<boolean> {
    const end = performance.now() + ms;
    while (!done()) {
      if (performance.now() > end) {
        return false;
      }
      this.turn(10);
      await Bun.sleep(0);
    }
    return true;
  }

  end(): void {
    for (const fd of [...this.handlers.keys()]) {
      this.drop(fd);
    }
    for (const fd of [...this.namespaces.values(), this.home]) {
      closeSync(fd);
    }
    this.namespaces.clear();
  }
}
