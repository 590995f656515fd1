// A pool of Workers that verify stretches of an export concurrently.
import type { Stretch, Work } from "./stretch";

type Answer = { done: Stretch } | { failed: string };

interface Job {
  work: Work;
  resolve: (done: Stretch) => void;
  reject: (why: Error) => void;
}

export class Pool {
  readonly #idle: Worker[] = [];
  readonly #all: Worker[] = [];
  readonly #waiting: Job[] = [];
  readonly #running = new Map<Worker, Job>();

  constructor(createWorker: () => Worker, workers: number) {
    for (let i = 0; i < workers; i++) {
      const worker = createWorker();
      worker.addEventListener("message", (message: MessageEvent<Answer>) => {
        const job = this.#running.get(worker);
        this.#running.delete(worker);
        this.#idle.push(worker);
        this.#next();
        if ("done" in message.data) job?.resolve(message.data.done);
        else job?.reject(new Error(message.data.failed));
      });
      // If a Worker does not start or fails, the whole verification fails.
      worker.addEventListener("error", (event) => this.#fail(event.message));
      this.#idle.push(worker);
      this.#all.push(worker);
    }
  }

  /** The number of stretches that keeps all Workers busy. */
  get parallel(): number {
    return 2 * this.#all.length;
  }

  readonly verify = (work: Work): Promise<Stretch> =>
    new Promise((resolve, reject) => {
      this.#waiting.push({ work, resolve, reject });
      this.#next();
    });

  #next(): void {
    while (this.#waiting.length > 0) {
      const worker = this.#idle.pop();
      const job = this.#waiting[0];
      if (worker === undefined || job === undefined) {
        if (worker !== undefined) this.#idle.push(worker);
        return;
      }
      this.#waiting.shift();
      this.#running.set(worker, job);
      worker.postMessage(job.work, [job.work.lines.buffer]);
    }
  }

  #fail(what: string): void {
    const why = new Error(`a Worker failed: ${what || "its script did not start"}`);
    for (const job of [...this.#running.values(), ...this.#waiting.splice(0)]) job.reject(why);
    this.#running.clear();
  }

  terminate(): void {
    for (const worker of this.#all) worker.terminate();
    this.#fail("it was stopped");
  }
}

/** Returns the number of Workers. The main thread only joins their results, so it needs little time. */
export function workerCount(): number {
  return Math.max(2, Math.min(4, navigator.hardwareConcurrency - 1));
}
