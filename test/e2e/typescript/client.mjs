// A client of the official TypeScript SDK that does what the end-to-end test wants of it:
//
//     node client.mjs CONFIG
//
// CONFIG is JSON: revision, and url with token, or command with args and env. It says
// each thing that happens as one line of JSON. What it is asked to do comes as lines of
// JSON on standard input: {"id", "do", "name", "arguments", "timeout"}.
import { createInterface } from 'node:readline'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const config = JSON.parse(process.argv[2])
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')

const modern = config.revision >= '2026-07-28'
const client = new Client(
  { name: config.name ?? 'typescript-test', version: '1' },
  {
    capabilities: config.url_elicitation ? { elicitation: { url: {}, form: {} } } : {},
    ...(modern
      ? { versionNegotiation: { mode: { pin: config.revision } } }
      : { supportedProtocolVersions: [config.revision], versionNegotiation: { mode: 'legacy' } }),
  },
)
if (config.url_elicitation) {
  client.setRequestHandler('elicitation/create', (request) => {
    say({ elicited: request.params })
    return { action: config.answer ?? 'accept' }
  })
}

const transport = config.url
  ? new StreamableHTTPClientTransport(new URL(config.url), { requestInit: { headers: { Authorization: `Bearer ${config.token}` } } })
  : new StdioClientTransport({ command: config.command, args: config.args, env: config.env, stderr: 'inherit' })

try {
  await client.connect(transport)
} catch (e) {
  say({ failed: String(e) })
  process.exit(1)
}
say({ connected: client.getServerVersion()?.name ?? '' })

const aborts = new Map()
const act = {
  list: async () => ({ tools: (await client.listTools()).tools.map((t) => t.name) }),
  call: async (m) => {
    const abort = new AbortController()
    aborts.set(m.id, abort)
    const result = await client.callTool(
      { name: m.name, arguments: m.arguments },
      { signal: abort.signal, timeout: m.timeout ?? 600000, onprogress: (p) => say({ id: m.id, progress: p }) },
    )
    return { result }
  },
  cancel: async (m) => {
    aborts.get(m.call).abort('the test cancels')
    return {}
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const m = JSON.parse(line)
  act[m.do](m).then(
    (done) => say({ id: m.id, done: true, ...done }),
    (e) => say({ id: m.id, done: true, error: String(e?.message ?? e) }),
  )
}
await client.close()
process.exit(0)
