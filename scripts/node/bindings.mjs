// Fails when a package for this system that the lock file of DIRECTORY pins is not installed. npm leaves
// out an optional package that does not support its Node, without a message.
//
//     node bindings.mjs DIRECTORY
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const directory = process.argv[2]
const { packages } = JSON.parse(readFileSync(join(directory, 'package-lock.json'), 'utf8'))
const libc = process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl'

const fits = (values, value) => {
  const list = [values ?? []].flat()
  return list.includes(value) || list.every((entry) => entry.startsWith('!') && entry !== `!${value}`)
}
// Without "os" and "cpu" a package may belong to one for another system.
const wanted = ({ os, cpu, libc: library }) =>
  (os || cpu) && fits(os, process.platform) && fits(cpu, process.arch) && (process.platform !== 'linux' || fits(library, libc))

const missing = Object.entries(packages).filter(([path, entry]) => entry.optional && wanted(entry) && !existsSync(join(directory, path)))
for (const [path, { engines }] of missing) {
  console.error(`${path} is not installed: it requires ${JSON.stringify(engines ?? {})}, and this is Node ${process.version}`)
}
process.exitCode = missing.length > 0 ? 1 : 0
