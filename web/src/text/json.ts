// Formats JSON as text and keeps numbers and strings as written. JSON.parse and
// JSON.stringify do not (9007199254740993 becomes ...992).

/** Returns the tokens of JSON text without whitespace. The text MUST be valid JSON. */
function tokens(text: string): string[] {
  const list: string[] = [];
  for (let at = 0; at < text.length; ) {
    const char = text.charAt(at);
    let end = at + 1;
    if (/\s/.test(char)) {
      at = end;
      continue;
    }
    if (char === '"') {
      while (text.charAt(end) !== '"') end += text.charAt(end) === "\\" ? 2 : 1;
      end++;
    } else if (!"{}[],:".includes(char)) {
      while (end < text.length && !/[\s{}[\],:"]/.test(text.charAt(end))) end++;
    }
    list.push(text.slice(at, end));
    at = end;
  }
  return list;
}

/** Indents JSON for reading; returns any other text unchanged. */
export function indentJson(text: string): string {
  if (!isJson(text)) return text;
  let out = "";
  let depth = 0;
  const list = tokens(text);
  for (const [i, token] of list.entries()) {
    const opens = token === "{" || token === "[";
    const closes = token === "}" || token === "]";
    const empty = opens ? /^[}\]]$/.test(list[i + 1] ?? "") : closes && /^[{[]$/.test(list[i - 1] ?? "");
    if (closes && !empty) out += `\n${"  ".repeat(--depth)}`;
    out += token;
    if (opens && !empty) out += `\n${"  ".repeat(++depth)}`;
    else if (token === ",") out += `\n${"  ".repeat(depth)}`;
    else if (token === ":") out += " ";
  }
  return out;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns JSON text without whitespace between its tokens. */
export function compactJson(text: string): string {
  return tokens(text).join("");
}

/** Returns the leaf values by JSON Pointer (RFC 6901): the text of a scalar, "{}" or "[]". */
export function leaves(text: string): Map<string, string> {
  const found = new Map<string, string>();
  const list = tokens(text);
  let at = 0;
  const walk = (pointer: string): void => {
    const token = list[at++] ?? "";
    if (token !== "{" && token !== "[") {
      found.set(pointer, token);
      return;
    }
    const end = token === "{" ? "}" : "]";
    if (list[at] === end) {
      at++;
      found.set(pointer, token + end);
      return;
    }
    for (let i = 0; ; i++) {
      let name = String(i);
      if (token === "{") {
        name = (JSON.parse(list[at] ?? '""') as string).replaceAll("~", "~0").replaceAll("/", "~1");
        at += 2;
      }
      walk(`${pointer}/${name}`);
      if (list[at++] === end) return;
    }
  };
  walk("");
  return found;
}
