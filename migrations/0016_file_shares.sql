-- Shares of teams in the configuration file ([share NAME]); what was set through the API stands before them.
ALTER TABLE team_share ADD COLUMN file_pm int8 CHECK (file_pm > 0);
CREATE VIEW team_share_now AS
SELECT team, CASE WHEN set_by <> '' THEN weight_pm ELSE coalesce(file_pm, 1000) END AS weight_pm,
	CASE WHEN set_by <> '' THEN 'set' WHEN file_pm IS NOT NULL THEN 'file' ELSE 'default' END AS source,
	file_pm, set_by, updated_us, spent_micros
FROM team_share;
