// The consent page: who asks, who is signed in, and what that person answers. Texts of others are only ever set as text.

const $ = (id) => document.getElementById(id)
const OURS = { 'x-cob-dashboard': '1' }

const query = new URLSearchParams(location.search)
const names = ['client_id', 'redirect_uri', 'response_type', 'state', 'scope', 'code_challenge', 'code_challenge_method']
const request = Object.fromEntries(names.flatMap((name) => (query.has(name) ? [[name, query.get(name)]] : [])))
if (query.has('resource')) request.resource = query.getAll('resource')

/** Asks the service. `failed` has a message for the person. */
async function ask(path, { method = 'GET', body } = {}) {
  try {
    const response = await fetch(path, {
      method,
      headers: { ...OURS, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const answer = text === '' ? {} : JSON.parse(text)
    return response.ok ? { answer } : { status: response.status, failed: answer.message ?? 'The service could not answer.' }
  } catch {
    return { status: 0, failed: 'The service does not answer. Try again in a moment.' }
  }
}

/** Shows one part of the page, or none. */
function show(title, message, part) {
  $('title').textContent = title
  $('message').textContent = message
  for (const id of ['sign-in', 'consent']) $(id).hidden = id !== part
  if (part === 'sign-in') $('key').focus()
  else $('title').focus()
}

async function showSignIn(message) {
  const { answer, failed } = await ask('/sign-in/options')
  if (failed) return show('Something went wrong', failed)
  const links = answer.providers.map(({ id, name }) => {
    const link = document.createElement('a')
    link.className = 'provider'
    link.textContent = `Sign in with ${name}`
    link.href = `/sign-in/oidc/${encodeURIComponent(id)}?${new URLSearchParams({ return_to: location.pathname + location.search })}`
    return link
  })
  $('providers').replaceChildren(...links)
  show('Sign in to allow access', message, 'sign-in')
}

async function start() {
  const asked = await ask(`/authorize/request${location.search}`)
  // A code must not go to an address that the client has not registered, so there is no way back to it either.
  if (asked.failed) return show('This request cannot be answered', asked.failed)
  const { client, goes_to: place, looks_only: looksOnly } = asked.answer
  const me = await ask('/me')
  if (me.status === 401) return showSignIn(`“${client.name}” asks for access to Cob.`)
  if (me.failed) return show('Something went wrong', me.failed)
  const { principal, role, projects } = me.answer
  $('client').textContent = client.name
  $('place').textContent = place
  $('who').textContent = principal.type === 'user' ? (principal.email ?? principal.name ?? principal.id) : `the API key “${principal.name}”`
  const option = (value, text) => {
    const made = document.createElement('option')
    made.value = value
    made.textContent = text
    return made
  }
  const all = role !== null || projects.length > 1 ? [option('', role === null ? 'all of your projects' : 'all projects')] : []
  $('project').replaceChildren(...all, ...projects.map(({ id, name }) => option(id, `only the project ${name}`)))
  $('looks-only').checked = looksOnly
  $('looks-only').disabled = looksOnly
  show('Allow access?', '', 'consent')
}

/** What does not work is told where the person looks. */
const when = (id, type, work) => $(id).addEventListener(type, (event) => void work(event).catch((error) => show('Something went wrong', String(error))))

when('sign-in', 'submit', async (event) => {
  event.preventDefault()
  const { failed } = await ask('/sign-in/key', { method: 'POST', body: { api_key: $('key').value.trim() } })
  $('key').value = ''
  if (failed) return showSignIn(failed)
  return start()
})

when('consent', 'submit', async (event) => {
  event.preventDefault()
  const allow = event.submitter?.value === 'allow'
  const project = $('project').value
  for (const button of document.querySelectorAll('button')) button.disabled = true
  const { answer, failed, status } = await ask('/authorize', {
    method: 'POST',
    body: { request, allow, looks_only: $('looks-only').checked, ...(project && { project_id: project }) },
  })
  for (const button of document.querySelectorAll('button')) button.disabled = false
  if (status === 401) return showSignIn('Your sign-in has ended. Sign in again.')
  if (failed) return show('This request cannot be answered', failed)
  show(allow ? 'Access is allowed' : 'Access is not allowed', 'You can close this page when the program goes on.')
  return location.assign(answer.redirect_to)
})

when('other', 'click', async () => {
  await ask('/sign-out', { method: 'POST' })
  return start()
})

await start()
