// All types of credential providers, and how each is opened. A new one is a file beside this one, a line here, and its name in the contract.
import type { ProviderType } from '../contract.ts'
import type { Backend } from './backend.ts'
import { bitwardenBackend } from './bitwarden.ts'
import { bitwardenExportBackend } from './bitwarden-export.ts'
import { commandBackend } from './command.ts'
import { fileBackend } from './file.ts'
import type { CredentialFiles } from './files.ts'
import type { Asker } from './http.ts'
import { connectOnePassword, onePasswordBackend } from './onepassword.ts'
import { connectBackend } from './onepassword-connect.ts'
import { vaultBackend } from './vault.ts'

export interface BackendTools {
  files: CredentialFiles
  asker: Asker
}

/** Makes a backend of a token, without opening its store. @throws WrongToken */
const BACKENDS: Record<ProviderType, (token: string, tools: BackendTools) => Backend> = {
  onepassword: (token) => onePasswordBackend(token, connectOnePassword),
  'onepassword-connect': (token, { asker }) => connectBackend(token, asker),
  bitwarden: (token, { asker }) => bitwardenBackend(token, asker),
  'bitwarden-export': (token, { files }) => bitwardenExportBackend(token, files),
  vault: (token, { asker }) => vaultBackend(token, asker),
  file: (token, { files }) => fileBackend(token, files),
  command: (token, { files }) => commandBackend(token, files),
}

/** @throws WrongToken when the token does not have the form of its type */
export const openBackend = (type: ProviderType, token: string, tools: BackendTools): Backend => BACKENDS[type](token, tools)
