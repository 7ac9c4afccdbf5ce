// The service itself: health, metrics, documents, and the maintenance of stored data.
import { stateOf } from '../../../store/db.ts'
import { assertOrganization } from '../../access/projects/projects.ts'
import { defineModule } from '../../module.ts'
import { openapiText } from '../openapi.ts'
import { partsOfService, type Component } from './components.ts'
import { system as contract } from './contract.ts'
import { serveDocs } from './docs.ts'
import { systemHandlers } from './handlers.ts'
import { showMachine } from './metrics.ts'
import { aliases, missingFrom, refuseMissing } from './missing.ts'
import { careForObjects } from './objects.ts'
import { keepPurging } from './purge.ts'

const DATABASE = { ok: 'operational', full: 'partial_outage', away: 'full_outage' } as const

export const system = defineModule({
  name: 'system',
  contracts: [contract],
  duties: ['purge', 'objects'],
  open(house) {
    const { db, objects, scope, config, disk, metrics, leases, modules, serving, log } = house
    const contracts = modules.flatMap((module) => module.contracts ?? [])
    const others = house.all(partsOfService)
    const further = house.all(aliases)
    const components = async (): Promise<Component[]> => [
      { name: 'api', status: 'operational' },
      { name: 'database', status: DATABASE[await stateOf(db)] },
      ...(await Promise.all(others.map((how) => how()))),
      // New work is refused while the disk is full.
      { name: 'disk', status: disk.room.problem === undefined ? 'operational' : 'partial_outage' },
    ]
    showMachine(metrics, () => disk.room, serving.openSockets)
    house.mount(contract, systemHandlers({ db, components, metrics, assertOrganization, openapiText: openapiText(contracts) }))
    house.serve((context) => {
      context.refuse = refuseMissing(missingFrom(contracts), further)
      serveDocs(context)
    })
    const purges = modules.flatMap((module) => module.purges?.({ db, objects, scope, config }) ?? [])
    const owners = modules.flatMap((module) => module.objects ?? []).map((ownersOf) => ownersOf(db, scope))
    house.background(() => keepPurging(purges, log, () => leases.holds('purge')))
    house.background(() => careForObjects({ db, objects, isShared: config.s3 !== undefined, isOurs: () => leases.holds('objects'), owners, log }))
  },
})
