-- The replica that has links into the session's agent for its proxy: when it is dead, the replica that watches the session dials its own.
alter table browsers add column proxy_replica text;
