import dns from 'node:dns';
import net from 'node:net';

net.setDefaultAutoSelectFamily(false);
// fetch has no option for the family of addresses, and Node 18 no order of them
// in which IPv6 is first: one family is all that a name has.
const lookup = dns.lookup;
let wanted = 0;
dns.lookup = (host, options, callback = options) => lookup(host, { ...options, family: wanted }, callback);

const args = process.argv.slice(2);
for (let i = 0; i < args.length; i += 2) {
  const [family, url] = args.slice(i, i + 2);
  wanted = Number(family);
  let text;
  try {
    // No connection is to serve for the next, which is of another family.
    const answer = await fetch(url, { headers: { connection: 'close' }, signal: AbortSignal.timeout(60000) });
    text = answer.ok ? (await answer.text()).trim() : 'failed';
  } catch {
    text = 'failed';
  }
  console.log(`${family} ${url} ${text}`);
}
