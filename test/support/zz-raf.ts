import { readConfig } from '/work/main/src/base/config.ts'
import { dataPaths } from '/work/main/src/base/paths.ts'
import { makeLog } from '/work/main/src/base/log.ts'
import { localDriver } from '/work/main/src/instances/local/local.ts'
import { USUAL_MAX_SCREEN } from '/work/main/src/instances/driver.ts'
import { newId } from '/work/main/src/base/ids.ts'
import { callJson } from '/work/main/src/http/endpoint.ts'
import net from 'node:net'; import { WebSocket } from 'ws'; import http from 'node:http'
const config = readConfig({ ...process.env, COB_DATA_DIR: '/tmp/d1', COB_LOG_LEVEL: 'info' })
const d = localDriver(config, dataPaths(config.dataDir), 'test', makeLog('t', 'info'))
for (const o of await d.list()) await o[Symbol.asyncDispose]()
const sig = AbortSignal.timeout(30000)
const i = await d.start({ id: newId(), viewport: { width: 1920, height: 1080, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN }, sig)
await callJson(i.agent, 'POST', '/session/fit', { viewport: { width: 800, height: 600, refresh_rate: 20 } }, sig)
const ws = new WebSocket('ws+unix://' + (i.agent as any).socketPath + ':/session/cdp', { perMessageDeflate: false })
await new Promise(r => ws.on('open', r))
let id = 0; const send = (method: string, params = {}, sessionId?: string): Promise<any> => new Promise(r => { const n = ++id; ws.send(JSON.stringify({ id: n, method, params, sessionId })); ws.on('message', (m) => { const x = JSON.parse(String(m)); if (x.id === n) r(x.result ?? x) }) })
const t = (await send('Target.getTargets')).targetInfos.find((t: any) => t.type === 'page')
const { sessionId } = await send('Target.attachToTarget', { targetId: t.targetId, flatten: true })
const ev = async (e: string) => (await send('Runtime.evaluate', { expression: e, awaitPromise: true, returnByValue: true }, sessionId)).result?.value
await new Promise(r => setTimeout(r, 1000))
console.log(process.env.NAME, 'raf', await ev(`new Promise((done) => { let n = 0; const from = performance.now(); const step = () => ++n === 40 ? done(40000 / (performance.now() - from)) : requestAnimationFrame(step); requestAnimationFrame(step) })`),
 await ev(`(()=>{const g=document.createElement('canvas').getContext('webgl');if(!g)return 'none';const e=g.getExtension('WEBGL_debug_renderer_info');return g.getParameter(e.UNMASKED_RENDERER_WEBGL)})()`), await ev('Object.keys(window.chrome||{}).join()+" "+navigator.plugins.length+" "+navigator.webdriver'))
import fs from 'node:fs'
let tot = 0, parts: any = {}
for (const l of fs.readdirSync('/proc').filter(x => /^\d+$/.test(x))) try { const st = fs.statSync('/proc/' + l); if (st.uid < 1900000000) continue; const cmd = fs.readFileSync(`/proc/${l}/cmdline`, 'utf8').replaceAll('\0', ' '); const k = /--type=(\S+)/.exec(cmd)?.[1] ?? cmd.slice(0, 14); const p = +/Pss:\s+(\d+)/.exec(fs.readFileSync(`/proc/${l}/smaps_rollup`, 'utf8'))![1]! / 1024; tot += p; parts[k] = Math.round((parts[k] ?? 0) + p) } catch {}
console.log(Math.round(tot), JSON.stringify(parts))
await i[Symbol.asyncDispose](); process.exit(0)
