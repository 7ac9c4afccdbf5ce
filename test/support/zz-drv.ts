import { readConfig } from '/work/main/src/base/config.ts'
import { dataPaths } from '/work/main/src/base/paths.ts'
import { makeLog } from '/work/main/src/base/log.ts'
import { localDriver } from '/work/main/src/instances/local/local.ts'
import { USUAL_MAX_SCREEN } from '/work/main/src/instances/driver.ts'
import { newId } from '/work/main/src/base/ids.ts'
import { fetchFrom, callJson } from '/work/main/src/http/endpoint.ts'
import { writeFileSync } from 'node:fs'
const config = readConfig({ ...process.env, COB_DATA_DIR: process.argv[2], COB_LOG_LEVEL: 'debug', COB_CHROMIUM: '/usr/lib/chromium/chromium' })
const d = localDriver(config, dataPaths(config.dataDir), 'test', makeLog('t', 'debug'))
const sig = AbortSignal.timeout(30000)
for (const o of await d.list()) { console.log("adopted", o.id); await o[Symbol.asyncDispose]() }
for (let k = 0; k < 3; k++) {
let t = performance.now()
const i = await d.start({ id: newId(), viewport: { width: 1920, height: 1080, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN }, sig)
console.log('started', (performance.now() - t).toFixed(0), i.agent)
console.log(await callJson(i.agent, 'GET', '/session/status', undefined, sig))
t = performance.now()
await callJson(i.agent, 'POST', '/session/fit', { viewport: { width: 1280, height: 800, refresh_rate: 60 }, fullscreen: k === 1, start_url: 'data:text/html,<h1>Hi' }, sig)
console.log('fit', (performance.now() - t).toFixed(0))
await new Promise(r => setTimeout(r, 1000))
for (let n = 0; n < 3; n++) { t = performance.now()
const r = await fetchFrom(i.agent, { method: 'POST', path: '/computer/screenshot' }, sig); const c = []; for await (const x of r) c.push(x); console.log(r.statusCode, Buffer.concat(c).length, (performance.now() - t).toFixed(1)); writeFileSync(`/tmp/shot${k}.png`, Buffer.concat(c)) }
t = performance.now()
console.log((await import("node:fs")).readFileSync(i.agent.socketPath.replace("sock","log"),"utf8").split("\n").filter(l=>!l.startsWith("{")).join("\n")); await i[Symbol.asyncDispose](); console.log('disposed', (performance.now() - t).toFixed(0), await i.exited)
}
