// A filter is a line that people can read, type, link to and save:
//
//   tool:process.run,http.fetch -severity:low requester:agent:builder
//
// A word is facet:value[,value...]; a minus before it leaves out what it names. A value
// with a blank, a comma or a quote stands in double quotes.

/** Something that can be filtered by. */
export interface Facet {
  id: string;
  label: string;
  /** The values, where they are a closed list. */
  values?: readonly string[];
  /** Set where leaving out is not offered. */
  onlyInclude?: boolean;
  /** Checks one value: what is wrong, or undefined. */
  check?: (value: string) => string | undefined;
}

export interface Term {
  facet: string;
  exclude: boolean;
  values: string[];
}

export interface Filter {
  terms: Term[];
  /** What was not understood, for people. */
  problems: string[];
}

/** Reads a filter line. */
export function parseFilter(line: string, facets: readonly Facet[]): Filter {
  const filter: Filter = { terms: [], problems: [] };
  for (const word of words(line)) {
    const exclude = word.startsWith("-");
    const body = exclude ? word.slice(1) : word;
    const colon = body.indexOf(":");
    const facet = facets.find((f) => f.id === (colon < 0 ? "" : body.slice(0, colon)));
    if (facet === undefined) {
      filter.problems.push(`"${word}" is no filter: write ${facets.map((f) => `${f.id}:…`).join(", ")}`);
      continue;
    }
    if (exclude && facet.onlyInclude === true) {
      filter.problems.push(`${facet.id} cannot be left out, only asked for`);
      continue;
    }
    const values = listed(body.slice(colon + 1));
    if (values.length === 0) continue;
    const wrong = values.map((value) => problem(facet, value)).find((p) => p !== undefined);
    if (wrong !== undefined) {
      filter.problems.push(wrong);
      continue;
    }
    addTerm(filter.terms, { facet: facet.id, exclude, values });
  }
  return filter;
}

function problem(facet: Facet, value: string): string | undefined {
  if (facet.values !== undefined && !facet.values.includes(value)) {
    return `${facet.id} has no "${value}": it is one of ${facet.values.join(", ")}`;
  }
  return facet.check?.(value);
}

/** Adds a term to others: the same facet and sense are one term. */
export function addTerm(terms: Term[], term: Term): void {
  const same = terms.find((t) => t.facet === term.facet && t.exclude === term.exclude);
  if (same === undefined) terms.push({ ...term, values: [...new Set(term.values)] });
  else same.values = [...new Set([...same.values, ...term.values])];
}

/** Writes terms as a filter line. */
export function formatFilter(terms: readonly Term[]): string {
  return terms
    .filter((term) => term.values.length > 0)
    .map((term) => `${term.exclude ? "-" : ""}${term.facet}:${term.values.map(quoted).join(",")}`)
    .join(" ");
}

/** The values of a facet that are asked for, or left out. */
export function valuesOf(filter: Filter, facet: string, exclude = false): string[] {
  return filter.terms.find((t) => t.facet === facet && t.exclude === exclude)?.values ?? [];
}

/** Whether a thing passes: value gives what it has of a facet. */
export function passes(filter: Filter, value: (facet: string) => readonly string[]): boolean {
  return filter.terms.every((term) => {
    const has = value(term.facet).some((v) => term.values.includes(v));
    return has !== term.exclude;
  });
}

function quoted(value: string): string {
  return /[\s,"\\]/.test(value) || value === "" ? `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : value;
}

function words(line: string): string[] {
  return line.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
}

function listed(text: string): string[] {
  const values = text.match(/"(?:\\.|[^"\\])*"?|[^,"]+/g) ?? [];
  return values.map((v) => (v.startsWith('"') ? v.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1") : v)).filter((v) => v !== "");
}
