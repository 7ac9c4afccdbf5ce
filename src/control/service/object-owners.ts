// The kinds of rows that name objects, for the sweep and for the check that all objects are there.
import type { Db } from '../../store/db.ts'
import type { ObjectOwner } from '../../store/sweep.ts'
import { archiveObjects, codeObjects } from '../apps/deployments/rows.ts'
import { extensionObjects } from '../sessions/extensions/rows.ts'
import { profileObjects } from '../sessions/profiles/rows.ts'
import { replayObjects } from '../sessions/replays/rows.ts'
import { telemetryObjects } from '../sessions/telemetry/rows.ts'

export const objectOwners = (db: Db, scope: string): ObjectOwner[] => [
  replayObjects(db, scope),
  archiveObjects(db, scope),
  codeObjects(db, scope),
  extensionObjects(db, scope),
  profileObjects(db, scope),
  telemetryObjects(db, scope),
]
