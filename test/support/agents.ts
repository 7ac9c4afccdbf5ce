// Where the agents of sessions answer, as their service reaches them.
import { readFileSync } from 'node:fs'
import { dataPaths } from '../../src/base/paths.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { storedEndpoints, type StoredEndpoint } from '../../src/http/stored-endpoint.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import type { Cloud } from './cloud.ts'

/** A session's agent: by its Unix socket, or by TCP with the credential that its row keeps sealed. */
export async function endpointOf(cloud: Pick<Cloud, 'query' | 'dataDir'>, id: string): Promise<Endpoint> {
  const [row] = await cloud.query<{ endpoint: StoredEndpoint }>('select endpoint from browsers where id = $1', [id])
  const key = readFileSync(dataPaths(cloud.dataDir).secretKey, 'utf8').trim()
  return storedEndpoints(makeSealer(fixedKeys(Buffer.from(key, 'hex')), 'endpoints')).open(row!.endpoint, id)
}
