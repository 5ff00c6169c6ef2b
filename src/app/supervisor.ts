/** Tells systemd that we are ready, alive and stopping; does nothing where nobody asked. */
import type { Log } from "../model/log.ts";
import { createNotifier, type NotifyEnvironment, startWatchdog } from "./systemd-notify.ts";

let environment: NotifyEnvironment = { socket: undefined, watchdogMs: 0 };

/** What main took out of the environment at start. */
export function setNotifyEnvironment(given: NotifyEnvironment): void {
  environment = given;
}

/** READY=1 now, watchdog pings while `healthy`, STOPPING=1 when the returned function is called. */
export function startNotifying(log: Log, healthy: () => boolean): () => void {
  let stop = (): void => {};
  let stopped = false;
  void createNotifier(environment.socket).then((notifier) => {
    if (notifier.problem !== undefined)
      log.warn("systemd cannot be told that we are ready", { reason: notifier.problem });
    if (stopped || notifier.way === "none") return;
    notifier.send("READY=1");
    const end = startWatchdog(notifier, environment.watchdogMs, healthy);
    stop = () => {
      end();
      notifier.send("STOPPING=1");
    };
  });
  return () => {
    stopped = true;
    stop();
  };
}
