// A filter is a line of text that users can type, link to and save:
//
//   tool:process.run,http.fetch -severity:low requester:agent:builder
//
// A term is facet:value[,value...]; a minus before it excludes the values. A value with a
// space, a comma or a quote is written in double quotes.

/** A field to filter by. */
export interface Facet {
  id: string;
  label: string;
  /** The allowed values; absent if any value is allowed. */
  values?: readonly string[];
  /** Whether the facet cannot be excluded. */
  onlyInclude?: boolean;
  /** Returns the problem with a value, or undefined if it is valid. */
  check?: (value: string) => string | undefined;
}

export interface Term {
  facet: string;
  exclude: boolean;
  values: string[];
}

export interface Filter {
  terms: Term[];
  /** Messages about invalid terms. */
  problems: string[];
}

/** Parses a filter line. */
export function parseFilter(line: string, facets: readonly Facet[]): Filter {
  const filter: Filter = { terms: [], problems: [] };
  for (const word of splitTerms(line)) {
    const exclude = word.startsWith("-");
    const body = exclude ? word.slice(1) : word;
    const colon = body.indexOf(":");
    const facet = facets.find((f) => f.id === (colon < 0 ? "" : body.slice(0, colon)));
    if (facet === undefined) {
      filter.problems.push(`"${word}" is not a valid filter: use ${facets.map((f) => `${f.id}:…`).join(", ")}`);
      continue;
    }
    if (exclude && facet.onlyInclude === true) {
      filter.problems.push(`${facet.id} cannot be excluded`);
      continue;
    }
    const values = splitValues(body.slice(colon + 1));
    if (values.length === 0) continue;
    const invalid = values.map((value) => validate(facet, value)).find((p) => p !== undefined);
    if (invalid !== undefined) {
      filter.problems.push(invalid);
      continue;
    }
    mergeTerm(filter.terms, { facet: facet.id, exclude, values });
  }
  return filter;
}

function validate(facet: Facet, value: string): string | undefined {
  if (facet.values !== undefined && !facet.values.includes(value)) {
    return `"${value}" is not a valid value of ${facet.id}: use ${facet.values.join(", ")}`;
  }
  return facet.check?.(value);
}

/** Adds a term; terms with the same facet and sense are merged. */
export function mergeTerm(terms: Term[], term: Term): void {
  const same = terms.find((t) => t.facet === term.facet && t.exclude === term.exclude);
  if (same === undefined) terms.push({ ...term, values: [...new Set(term.values)] });
  else same.values = [...new Set([...same.values, ...term.values])];
}

/** Formats terms as a filter line. */
export function formatFilter(terms: readonly Term[]): string {
  return terms
    .filter((term) => term.values.length > 0)
    .map((term) => `${term.exclude ? "-" : ""}${term.facet}:${term.values.map(quoteValue).join(",")}`)
    .join(" ");
}

/** Returns the included values of a facet, or the excluded ones. */
export function valuesOf(filter: Filter, facet: string, exclude = false): string[] {
  return filter.terms.find((t) => t.facet === facet && t.exclude === exclude)?.values ?? [];
}

/** Whether an item matches the filter; value returns the item's values of a facet. */
export function matches(filter: Filter, value: (facet: string) => readonly string[]): boolean {
  return filter.terms.every((term) => {
    const has = value(term.facet).some((v) => term.values.includes(v));
    return has !== term.exclude;
  });
}

function quoteValue(value: string): string {
  return /[\s,"\\]/.test(value) || value === "" ? `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : value;
}

function splitTerms(line: string): string[] {
  return line.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
}

function splitValues(text: string): string[] {
  const values = text.match(/"(?:\\.|[^"\\])*"?|[^,"]+/g) ?? [];
  return values.map((v) => (v.startsWith('"') ? v.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1") : v)).filter((v) => v !== "");
}
