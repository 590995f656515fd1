import dns from 'node:dns';
import net from 'node:net';

net.setDefaultAutoSelectFamily(false);
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i += 2) {
  const [family, url] = args.slice(i, i + 2);
  dns.setDefaultResultOrder(`ipv${family}first`);
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
