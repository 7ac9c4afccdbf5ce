// Handlers of the extensions tool: unpacks extensions, which a step of fitting loads.
import type { Handlers } from '../../http/route.ts'
import type { Fitting } from '../session/fit/fitting.ts'
import type { extensions, extensionStaging } from './contract.ts'
import type { ExtensionFolder } from './folder.ts'

export const extensionHandlers = (folder: ExtensionFolder, fitting: Pick<Fitting, 'fit'>): Handlers<typeof extensions> => ({
  async loadExtensions({ body, signal }) {
    const names = await folder.addAll(body, signal)
    try {
      await fitting.fit({ extensions: names })
    } catch (error) {
      await folder.remove(names)
      throw error
    }
  },
})

/** The control plane fits the browser to all settings of a new session at once. A session that cannot have all of them is ended. */
export const stagingHandlers = (folder: ExtensionFolder): Handlers<typeof extensionStaging> => ({
  stageExtension: ({ query, body, signal }) => folder.add(query.name, body, signal),
})
