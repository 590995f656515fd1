// The gateway lists events oldest first, after a sequence number; people read the newest
// first. Windows of the journal are asked for, from its head back.

/** One page of what the gateway lists: nextAfter is 0 at the end. */
export interface Page<Event> {
  events: readonly Event[];
  nextAfter: number;
}

/** Asks for the events after a sequence number, oldest first. */
export type List<Event> = (after: number) => Promise<Page<Event>>;

const smallest = 200;

/**
 * The newest events up to a sequence number, newest first: at least so many, or all that
 * are left. next is where it goes on; 0 at the beginning of the journal. A window that
 * holds nothing makes the next one larger, one that holds more than a page smaller: a
 * filter that chooses little of a million events takes a few requests.
 */
export async function backwards<Event>(list: List<Event>, seqOf: (event: Event) => number, from: number, want: number): Promise<{ events: Event[]; next: number }> {
  const events: Event[] = [];
  let upto = from;
  let span = Math.max(smallest, want);
  // Where a window began that held more than a page: between there and upto it is halved.
  let crowded = -1;
  while (upto > 0 && events.length < want) {
    const after = Math.max(0, upto - span);
    const first = await list(after);
    const window = [...first.events];
    if (!reaches(first, seqOf, upto) && span > smallest) {
      crowded = after;
      span = halved(upto - after);
      continue;
    }
    for (let page = first; !reaches(page, seqOf, upto); ) {
      page = await list(page.nextAfter);
      window.push(...page.events);
    }
    const inside = window.filter((event) => seqOf(event) <= upto);
    events.push(...inside.reverse());
    upto = after;
    if (inside.length === 0) span = crowded >= 0 && upto > crowded ? halved(upto - crowded) : span * 8;
  }
  return { events, next: upto };
}

function halved(span: number): number {
  return Math.max(smallest, Math.ceil(span / 2));
}

function reaches<Event>(page: Page<Event>, seqOf: (event: Event) => number, upto: number): boolean {
  const last = page.events[page.events.length - 1];
  return page.nextAfter === 0 || last === undefined || seqOf(last) >= upto;
}
