// What a newcomer sees first. Every document here must run as it stands.

const preview = `# Welcome to the Trigger Manager.
#
# Ctrl-Enter runs this, Ctrl-Space completes.
# The icons on the left: docs, history, and an
# explorer that builds operations by clicking.
#
# Most fields need a token: paste yours above.
# Then the next tab lists your projects.
#
# A schedule has six fields, seconds first:
#   second minute hour day month weekday
# When does this one fire?

query SchedulePreview {
  cronPreview(
    expression: "0 0 9 * * 1-5"
    timeZone: "Europe/Amsterdam"
    count: 3
  ) {
    description
    occurrences {
      at
      local
      offset
    }
    error {
      code
      message
      field
    }
  }
}
`;

const projects = `# Your projects. Other fields ask for their ids.

query Projects {
  projects(first: 20) {
    nodes {
      id
      name
    }
  }
}
`;

/** The tabs of a first visit. */
export const firstTabs = [{ query: preview }, { query: projects }];

/** What a new tab starts with. */
export const newTab = `# Ctrl-Enter runs, Ctrl-Space completes.

`;
