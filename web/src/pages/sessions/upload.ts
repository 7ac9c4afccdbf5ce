// Sending a file to a session. Only XMLHttpRequest tells how much has been sent.
import { ROUTES } from 'virtual:routes'
import { ApiError, queryOf } from '../../api/client.ts'
import { project } from '../../api/project.ts'

/** Writes `file` to `path`. `progress` is told which part has been sent. @throws ApiError */
export async function upload(id: string, path: string, file: File, progress: (part: number) => void): Promise<void> {
  const [method, pattern] = ROUTES.writeFile!
  const request = new XMLHttpRequest()
  request.open(method, pattern.replace('{id}', encodeURIComponent(id)) + queryOf({ path }))
  for (const [name, value] of Object.entries({ 'x-cob-dashboard': '1', 'content-type': 'application/octet-stream', ...project.headers() }))
    request.setRequestHeader(name, value)
  request.upload.addEventListener('progress', ({ loaded, total }) => progress(total > 0 ? loaded / total : 1))
  await new Promise<void>((resolve, reject) => {
    request.addEventListener('loadend', () => {
      if (request.status >= 200 && request.status < 300) resolve()
      else reject(refusalOf(request))
    })
    request.send(file)
  })
}

function refusalOf({ status, responseText: text }: XMLHttpRequest): ApiError {
  if (status === 0) return new ApiError(0, 'unreachable', 'The service cannot be reached, or the file has changed.')
  try {
    const { code, message } = JSON.parse(text) as { code: string; message: string }
    return new ApiError(status, code, message)
  } catch {
    return new ApiError(status, 'unknown', `The answer was ${status}.`)
  }
}
