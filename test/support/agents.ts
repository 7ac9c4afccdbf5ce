// The endpoint of a session's agent, as the service reaches it.
import { readFileSync } from 'node:fs'
import { dataPaths } from '../../src/base/paths.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { storedEndpoints, type StoredEndpoint } from '../../src/http/stored-endpoint.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import type { Cloud } from './cloud.ts'

/** The agent's Unix socket, or its TCP address with the credential that the row has in encrypted form. */
export async function endpointOf(cloud: Pick<Cloud, 'query' | 'dataDir'>, id: string): Promise<Endpoint> {
  const [row] = await cloud.query<{ endpoint: StoredEndpoint }>('select endpoint from browsers where id = $1', [id])
  const key = readFileSync(dataPaths(cloud.dataDir).secretKey, 'utf8').trim()
  return storedEndpoints(makeSealer(fixedKeys(Buffer.from(key, 'hex')), 'endpoints')).open(row!.endpoint, id)
}
