// One profile: its versions, which can be restored, and the file that sessions load.
import { useState } from 'react'
import { Link, useNavigate, useParams } from 'react-router'
import { bytes } from '../../api/client.ts'
import type { AnswerOf } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { Loading, Table } from '../../ui/list.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Facts, Mono, size, State } from '../../ui/show.tsx'
import { Thing } from '../../ui/thing.tsx'
import { done, failed } from '../../ui/toasts.tsx'
import { save } from '../sessions/download.ts'
import '../../ui/form.css'

type Profile = AnswerOf<'getProfile'>
type Version = AnswerOf<'listProfileVersions'>[number]

const REFRESH_MS = 10_000
const nameOf = ({ name, id }: Profile): string => name ?? id

export default function ProfilePage() {
  const { id = '' } = useParams()
  const may = useRights()
  return (
    <Thing
      query={useCall('getProfile', { params: { id_or_name: id } }, { everyMs: REFRESH_MS })}
      what="This profile"
      back={<Link to="/profiles">Profiles</Link>}
      titleOf={nameOf}
      text={({ saving }) => saving && <State kind="busy">A session is being saved into it</State>}
      buttons={(profile) => may.use && <Buttons profile={profile} />}
    >
      {(profile) => (
        <>
          <section className="panel" aria-label="Profile">
            <Facts
              facts={[
                ['Id', <Mono key="id">{profile.id}</Mono>],
                ['Last used', <Ago key="used" at={profile.last_used_at} />],
                ['Changed', profile.updated_at && <Ago key="updated" at={profile.updated_at} />],
                ['Created', <Ago key="created" at={profile.created_at} />],
              ]}
            />
          </section>
          <section className="section" aria-label="Versions">
            <h2>Versions</h2>
            <Versions profile={profile} mayUse={may.use} />
          </section>
        </>
      )}
    </Thing>
  )
}

function Buttons({ profile }: { profile: Profile }) {
  const params = { id_or_name: profile.id }
  const rename = useChange('updateProfile', ['getProfile', 'listProfiles'])
  const navigate = useNavigate()
  const [transfer, setTransfer] = useState<string>()
  const download = async (): Promise<void> => {
    setTransfer('Downloading…')
    try {
      const response = await bytes('downloadProfile', { params, query: {} }, { signal: new AbortController().signal })
      if (response.status === 202) throw new Error('Nothing has been saved into it yet. A session that saves what changes does it when it ends.')
      await save(response, `${nameOf(profile)}.tar.zst`, (count) => setTransfer(`Downloading: ${size(count)}`))
    } finally {
      setTransfer(undefined)
    }
  }
  return (
    <>
      <Button isDisabled={transfer !== undefined} onPress={() => void download().catch(failed('The download has failed'))}>
        {transfer ?? 'Download'}
      </Button>
      <FormDialog
        title="Rename the profile"
        trigger={<Button>Rename</Button>}
        fields={[{ name: 'name', label: 'Name', initial: profile.name ?? '', isRequired: true }]}
        action="Save"
        send={async (body) => {
          await rename.mutateAsync({ params, body: body as { name: string } })
          done('Saved')
        }}
      />
      <Remove
        call="deleteProfile"
        input={{ params }}
        changes={['listProfiles']}
        what="the profile"
        name={nameOf(profile)}
        text="all its versions are gone after that. Sessions that use it go on, and are not saved."
        look="danger"
        onDone={() => void navigate('/profiles')}
      />
    </>
  )
}

function Versions({ profile, mayUse }: { profile: Profile; mayUse: boolean }) {
  const { data, error, isPending, refetch } = useCall('listProfileVersions', { params: { id_or_name: profile.id } }, { everyMs: REFRESH_MS })
  if (isPending) return <Loading label="the versions" />
  if (!data) return <ErrorNotice error={error} what="The list of versions" retry={() => void refetch()} isPolled />
  if (data.length === 0)
    return <p className="muted">Nothing has been saved into it yet. Start a session with this profile that saves what changes: it does so when it ends.</p>
  return (
    <Table
      label="Versions"
      items={data}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Saved',
          cell: ({ created_at: at, current, whole }) => (
            <span className="main-cell">
              <Ago at={at} />
              {current && <State kind="good">Sessions load this one</State>}
              {!whole && <small>The last seconds may be missing</small>}
            </span>
          ),
        },
        { title: 'By session', isMinor: true, cell: ({ session_id: id }) => <Link to={`/sessions/${id}`}>{id}</Link> },
        { title: 'Size', isNumber: true, cell: ({ bytes: count }) => size(count) },
        { title: 'Chromium', isMinor: true, cell: ({ chromium }) => chromium },
        { title: 'Actions', cell: (version) => mayUse && !version.current && <Restore profile={profile} version={version} /> },
      ]}
    />
  )
}

function Restore({ profile, version }: { profile: Profile; version: Version }) {
  const restore = useChange('restoreProfileVersion', ['listProfileVersions', 'getProfile'])
  return (
    <Confirm
      title="Let sessions load this version?"
      text={<p>New sessions begin with it. The other versions are kept.</p>}
      action="Restore"
      trigger={<Button look="quiet">Restore</Button>}
      onConfirm={async () => {
        await restore.mutateAsync({ params: { id_or_name: profile.id, version_id: version.id } })
        done('Restored')
      }}
    />
  )
}
