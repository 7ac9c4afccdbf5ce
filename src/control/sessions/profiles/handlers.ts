// Handlers of the Profiles contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { profiles as contract } from './contract.ts'
import type { Profiles } from './profiles.ts'

export const profileHandlers = (profiles: Profiles): Handlers<typeof contract> => ({
  createProfile: ({ principal, body }) => profiles.create(known(principal).project, body.name),
  listProfiles: ({ principal, query }) => profiles.list(known(principal).project, query),
  getProfile: ({ principal, params }) => profiles.get(known(principal).project, params.id_or_name),
  updateProfile: ({ principal, params, body }) => profiles.rename(known(principal).project, params.id_or_name, body.name),
  deleteProfile: ({ principal, params }) => profiles.delete(known(principal).project, params.id_or_name),
  downloadProfile: ({ principal, params, query }) => profiles.download(known(principal).project, params.id_or_name, query.format),
  listProfileVersions: ({ principal, params }) => profiles.versions(known(principal).project, params.id_or_name),
  restoreProfileVersion: ({ principal, params }) => profiles.restore(known(principal).project, params.id_or_name, params.version_id),
})
