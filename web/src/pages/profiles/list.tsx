// Profiles: all of a project, and a new one.
import { useNavigate } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { BY_NAME, List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Named, State } from '../../ui/show.tsx'

const REFRESH_MS = 10_000

const COLUMNS: Column<ItemOf<'listProfiles'>>[] = [
  {
    title: 'Profile',
    cell: ({ id, name, saving }) => (
      <Named id={id} name={name} to={`/profiles/${id}`}>
        {saving && <State kind="busy">Being saved</State>}
      </Named>
    ),
  },
  { title: 'Last used', cell: ({ last_used_at: at }) => <Ago at={at} /> },
  { title: 'Changed', isMinor: true, cell: ({ updated_at: at }) => <Ago at={at} /> },
  { title: 'Created', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
]

function NewProfile() {
  const create = useChange('createProfile', ['listProfiles'])
  const navigate = useNavigate()
  return (
    <FormDialog
      title="New profile"
      trigger={<Button look="primary">New profile</Button>}
      fields={[{ name: 'name', label: 'Name', hint: 'Letters, digits, ".", "_" and "-". May be empty.' }]}
      action="Create"
      send={async (body) => {
        const { id } = await create.mutateAsync({ body })
        await navigate(`/profiles/${id}`)
      }}
    />
  )
}

export default function Profiles() {
  const may = useRights()
  return (
    <>
      <Head title="Profiles" text="Cookies, storage and tabs that sessions load when they begin and save when they end.">
        {may.use && <NewProfile />}
      </Head>
      <List
        id="listProfiles"
        label="Profiles"
        filters={BY_NAME}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No profiles"
            text="With a profile, a session begins where another one has ended: logged in. Create one here, or from a program:"
            examples={examples(
              `await kernel.profiles.create({ name: 'shop' })\nconst session = await kernel.browsers.create({ profile: { name: 'shop', save_changes: true } })\nconsole.log(session.browser_live_view_url)`,
              `kernel.profiles.create(name="shop")\nsession = kernel.browsers.create(profile={"name": "shop", "save_changes": True})\nprint(session.browser_live_view_url)`,
              `-H "Content-Type: application/json" -d '{"name": "shop"}' $URL/profiles`,
            )}
          />
        }
      />
    </>
  )
}
