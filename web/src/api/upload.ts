// Calls that send a file. They use XMLHttpRequest, because fetch does not report the progress of an upload.
import { ROUTES } from 'virtual:routes'
import { ANSWER_MS, ApiError, pathOf, queryOf, refusalOf } from './client.ts'
import type { AnswerOf, CallId } from './contracts.ts'
import { project } from './project.ts'

/** Gets the part of the file that has been sent, from 0 to 1. */
export type Progress = (part: number) => void

interface Sent {
  params?: Record<string, unknown>
  query?: Record<string, unknown>
  body: Blob | FormData
}

/** Calls a route with a file. A slow connection may take any time: the call fails only when nothing was sent for {@link ANSWER_MS}. @throws ApiError */
export async function upload<K extends CallId>(id: K, { params, query, body }: Sent, progress: Progress): Promise<AnswerOf<K>> {
  const [method, pattern] = ROUTES[id]!
  const request = new XMLHttpRequest()
  request.open(method, pathOf(pattern, params) + queryOf(query))
  // The browser chooses the boundary of a form, which is part of its content type.
  const type = body instanceof FormData ? {} : { 'content-type': 'application/octet-stream' }
  for (const [name, value] of Object.entries({ 'x-cob-dashboard': '1', ...type, ...project.headers() })) request.setRequestHeader(name, value)
  const { promise, resolve, reject } = Promise.withResolvers<AnswerOf<K>>()
  const stalled = () => {
    reject(new ApiError(0, 'timeout', 'The service has not answered in time.'))
    request.abort()
  }
  let timer = setTimeout(stalled, ANSWER_MS)
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    clearTimeout(timer)
    timer = setTimeout(stalled, ANSWER_MS)
    progress(total > 0 ? loaded / total : 1)
  })
  request.addEventListener('loadend', () => {
    const { status, responseText: text } = request
    if (status >= 200 && status < 300) resolve((text === '' ? undefined : JSON.parse(text)) as AnswerOf<K>)
    else if (status === 0) reject(new ApiError(0, 'unreachable', 'The service cannot be reached, or the file has changed.'))
    else reject(refusalOf(status, text, request.getResponseHeader('x-request-id')))
  })
  request.send(body)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}
