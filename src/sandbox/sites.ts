/** Sites of the simulated CPO's stations. Plausible and invented. */

const alternating = {
  standard: 'IEC_62196_T2',
  format: 'SOCKET',
  power_type: 'AC_3_PHASE',
  max_voltage: 230,
  max_amperage: 32,
};
const direct = {
  standard: 'IEC_62196_T2_COMBO',
  format: 'CABLE',
  power_type: 'DC',
  max_voltage: 920,
  max_amperage: 300,
};

export const sites = [
  {
    name: 'Laadplein De Oude Werf',
    address: 'Werfkade 14',
    city: 'Utrecht',
    postal_code: '3526 KL',
    country: 'NLD',
    time_zone: 'Europe/Amsterdam',
    coordinates: { latitude: '52.081540', longitude: '5.102310' },
    parking_type: 'ON_STREET',
    plug: alternating,
  },
  {
    name: 'Ladepark Nordheide',
    address: 'An der Autobahn 3',
    city: 'Buchholz in der Nordheide',
    postal_code: '21244',
    country: 'DEU',
    time_zone: 'Europe/Berlin',
    coordinates: { latitude: '53.327810', longitude: '9.868220' },
    parking_type: 'ALONG_MOTORWAY',
    plug: direct,
  },
  {
    name: 'Parkeergarage Lindeplein',
    address: 'Lindeplein 2',
    city: 'Groningen',
    postal_code: '9711 LV',
    country: 'NLD',
    time_zone: 'Europe/Amsterdam',
    coordinates: { latitude: '53.219060', longitude: '6.566990' },
    parking_type: 'PARKING_GARAGE',
    plug: alternating,
  },
  {
    name: 'Marktgarage Süd',
    address: 'Färbergasse 9',
    city: 'Freiburg im Breisgau',
    postal_code: '79098',
    country: 'DEU',
    time_zone: 'Europe/Berlin',
    coordinates: { latitude: '47.994630', longitude: '7.849270' },
    parking_type: 'UNDERGROUND_GARAGE',
    plug: direct,
  },
  {
    name: 'Snellaadstation Kempen-Oost',
    address: 'Ringweg 201',
    city: 'Turnhout',
    postal_code: '2300',
    country: 'BEL',
    time_zone: 'Europe/Brussels',
    coordinates: { latitude: '51.321980', longitude: '4.948310' },
    parking_type: 'ON_DRIVEWAY',
    plug: direct,
  },
];

export type Site = (typeof sites)[number];
