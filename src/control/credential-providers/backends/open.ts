// All types of credential providers, and what each is opened with. A new one is a file beside this one, a line here, and its name in the contract.
import type { ProviderType } from '../contract.ts'
import type { Backend } from './backend.ts'
import { fileBackend } from './file.ts'
import type { CredentialFiles } from './files.ts'
import { keepassBackend } from './keepass.ts'
import { passBackend } from './pass.ts'

export interface BackendTools {
  files: CredentialFiles
}

/** Makes a backend of a token, without opening its store. @throws WrongToken */
const BACKENDS: Record<ProviderType, (token: string, tools: BackendTools) => Backend> = {
  keepass: (token, { files }) => keepassBackend(token, files),
  pass: (token, { files }) => passBackend(token, files),
  file: (token, { files }) => fileBackend(token, files),
}

/** @throws WrongToken when the token does not have the form of its type */
export const openBackend = (type: ProviderType, token: string, tools: BackendTools): Backend => BACKENDS[type](token, tools)
